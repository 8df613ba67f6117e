"""What is a value? Frozen, a slot for each field, equal to what is of its class and has equal fields, and shown by them.

`frozen` makes a class what `attrs.frozen` makes it, and mypy takes it for that. What differs is the work: for equality, hash
and repr attrs writes source for each class and has it compiled. Here they are functions over the names of the fields, and only
`__init__` is compiled. A daemon has some 170 such classes; to compile the three for all of them took an eighth of its loading.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

__all__ = ["frozen"]

T = TypeVar("T")

if TYPE_CHECKING:
    from attrs import frozen
else:

    def frozen(described: type[T]) -> type[T]:
        """The value's class, by the fields that the class describes; what it says itself of equality, hash or repr stays.

        Of `attrs.field`, `eq` and `repr` are what they are to attrs, but that `eq` is true or false. An error is no value.
        """
        own = vars(described)
        made = attrs.frozen(eq=False, repr=False)(described)
        fields = attrs.fields(made)
        if "__eq__" not in own:
            made.__eq__, hashed = _compared_by([field.name for field in fields if field.eq])
            if "__hash__" not in own:
                made.__hash__ = hashed
        if "__repr__" not in own:
            made.__repr__ = _shown_by(
                [(field.name, repr if field.repr is True else field.repr) for field in fields if field.repr]
            )
        return made


def _compared_by(names: list[str]) -> tuple[Any, Any]:
    read = attrgetter("__class__", *names)  # with one name alone it would read no tuple

    def equal(self: Any, other: Any) -> Any:
        # To a value of another class: so Python asks that one's `__eq__` (the data model's answer, which attrs gives too).
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(read(self))

    return equal, hashed


def _shown_by(fields: list[tuple[str, Callable[[Any], str]]]) -> Any:
    def shown(self: Any) -> str:
        name = type(self).__qualname__.rpartition(">.")[2]
        return f"{name}({', '.join(f'{field}={show(getattr(self, field))}' for field, show in fields)})"

    return shown
