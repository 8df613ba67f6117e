"""Does each layer of isolation hold on a real child, and is its absence told with a cure?"""

from __future__ import annotations

import pytest

from sandboxd.errors import Problem
from sandboxd.runner.isolation.levels import Ability, Host, Kept, Layer, resolve
from sandboxd.runner.isolation.selftest import self_test

FOUNDATION: tuple[Layer, ...] = ("limits", "no-new-privileges", "seccomp")


def host(*layers: Layer, abi: int = 7) -> Host:
    return Host({layer: Ability(layer, works=True) for layer in layers}, abi)


@pytest.mark.parametrize("layer", FOUNDATION)
def test_a_layer_that_every_host_has_holds(layer: Layer) -> None:
    assert self_test(layer).reason == ""


def test_landlock_holds_or_says_what_helps() -> None:
    found = self_test("landlock")
    if not found.works:
        assert found.cure
        pytest.skip(f"NOT TESTED HERE: Landlock: {found.reason}")

    assert found.detail.startswith("ABI ")


def test_none_is_kept_everywhere() -> None:
    assert resolve("none", Host()) == Kept("none")


def test_standard_is_kept_where_its_layers_work() -> None:
    assert resolve("standard", host(*FOUNDATION, "landlock")) == Kept("standard")


def test_standard_on_an_old_landlock_becomes_strict_and_says_so() -> None:
    kept = resolve("standard", host(*FOUNDATION, "landlock", "bubblewrap", abi=2))

    assert isinstance(kept, Kept)
    assert kept.level == "strict"
    assert "ABI 2" in kept.note


def test_standard_is_refused_with_a_cure_where_neither_works() -> None:
    refused = resolve("standard", host(*FOUNDATION, "landlock", abi=2))

    assert isinstance(refused, Problem)
    assert "cannot keep `standard`" in refused.reason
    assert "Linux 6.12 or newer" in refused.reason


def test_strict_is_never_weakened() -> None:
    refused = resolve("strict", host(*FOUNDATION, "landlock"))

    assert isinstance(refused, Problem)
    assert "bubblewrap" in refused.reason
