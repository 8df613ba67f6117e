"""Is what `frozen` makes what `attrs.frozen` makes, to everybody who uses it?"""

from __future__ import annotations

import copy
from typing import Any

import attrs
import pytest

from sandboxd.values import frozen


@frozen
class Key:
    owner: str
    number: int = 0
    seen: int = attrs.field(default=0, eq=False)
    secret: str = attrs.field(default="", repr=False)
    body: str = attrs.field(default="", repr=lambda body: f"<{len(body)} characters>")


@attrs.frozen
class ByAttrs:
    owner: str
    number: int = 0
    seen: int = attrs.field(default=0, eq=False)
    secret: str = attrs.field(default="", repr=False)
    body: str = attrs.field(default="", repr=lambda body: f"<{len(body)} characters>")


@frozen
class Other:
    owner: str
    number: int = 0


@frozen
class Lone:
    name: Any


@frozen
class Empty:
    pass


@frozen
class Named:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return "one of many"


@frozen
class Counted:
    name: str

    def __hash__(self) -> int:
        return len(self.name)


def test_equal_fields_make_equal_values() -> None:
    assert Key("a", 1) == Key("a", 1)
    assert hash(Key("a", 1)) == hash(Key("a", 1))
    assert {Lone("a"), Lone("a"), Lone("b")} == {Lone("a"), Lone("b")}
    assert Empty() == Empty()


@pytest.mark.parametrize("other", [Key("b", 1), Key("a", 2), Key("a", 1, secret="x"), Other("a", 1), ByAttrs("a", 1), ("a", 1)])
def test_another_field_or_class_makes_another_value(other: object) -> None:
    assert Key("a", 1) != other


def test_a_field_that_is_not_compared_makes_no_other_value() -> None:
    assert Key("a", seen=1) == Key("a", seen=2)
    assert hash(Key("a", seen=1)) == hash(Key("a", seen=2))


def test_a_value_with_a_list_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Lone(["a"]))


def test_a_value_is_shown_as_attrs_shows_it() -> None:
    fields = ("a'b", 1, 2, "hidden", "four")

    assert repr(Key(*fields)) == repr(ByAttrs(*fields)).replace("ByAttrs", "Key")
    assert repr(Empty()) == "Empty()"


def test_a_class_inside_a_function_is_shown_by_its_own_name() -> None:
    @frozen
    class Local:
        number: int

    assert repr(Local(1)) == "Local(number=1)"


def test_what_a_class_says_itself_stays() -> None:
    assert Named("A") == Named("a")
    assert hash(Named("A")) == hash(Named("a"))
    assert repr(Named("A")) == "one of many"


def test_a_hash_that_a_class_gives_alone_stays() -> None:
    assert hash(Counted("abc")) == 3
    assert Counted("abc") != Counted("abd")


def test_a_value_does_not_change() -> None:
    value: Any = Lone("a")

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.name = "b"


def test_a_value_can_be_copied_and_changed() -> None:
    key = Key("a", 1)

    assert attrs.evolve(key, number=2) == Key("a", 2)
    assert copy.deepcopy(key) == key
    assert not hasattr(key, "__dict__")
