"""Which bytes may the files of a command have, as its policy says, and is every mistake in that told by its key?"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxd.errors import LoadError
from sandboxd.policy.adapter import AdapterCommand
from sandboxd.policy.decide import Subject, decide
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Allowed, Policy

TEXT = (Path(__file__).parents[2] / "policies" / "sandbox-agent-runner.toml").read_text()
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


def load(pins: str, text: str = TEXT) -> Policy:
    return load_policy("p.toml", f"{text}\n[pin]\n{pins}\n", "sha256:0")


def problems_of(pins: str, text: str = TEXT) -> dict[str, str]:
    with pytest.raises(LoadError) as caught:
        load(pins, text)
    return {problem.field: problem.reason for problem in caught.value.problems}


def test_pins_of_the_runner_and_of_a_hole_are_in_the_plan() -> None:
    policy = load(f'runner = ["{ONE}", "{TWO}"]\nrequest = ["{TWO}"]')
    given = AdapterCommand(policy.adapter, "plan", tuple(t.render({"request": ".aiwg/ops/runs/a"}) for t in policy.argv))

    decision = decide([policy], given, Subject("i", "t", "c", "", "/workspace", "/w", {"node": "/bin/node"}, "none"))

    assert isinstance(decision, Allowed)
    assert {path.hole: path.pins for path in decision.plan.paths} == {
        "working_dir": (),
        "runner": (ONE, TWO),
        "request": (TWO,),
    }


def test_without_pins_any_bytes_will_do() -> None:
    assert load_policy("p.toml", TEXT, "sha256:0").pins == {}


def test_a_misspelled_name_is_told_with_the_right_one() -> None:
    assert problems_of(f'runer = ["{ONE}"]')["pin.runer"].startswith("unknown key; did you mean `runner`?")


def test_what_is_no_file_cannot_be_pinned() -> None:
    assert "unknown key" in problems_of(f'mode = ["{ONE}"]')["pin.mode"]


@pytest.mark.parametrize("digest", ["1" * 64, f"sha256:{'1' * 63}", f"sha256:{'A' * 64}", f"md5:{'1' * 32}", ""])
def test_what_is_no_digest_is_refused(digest: str) -> None:
    assert "is no digest" in problems_of(f'runner = ["{digest}"]')["pin.runner"]


@pytest.mark.parametrize(("value", "why"), [("[]", "at least one"), (f'"{ONE}"', "list of strings")])
def test_a_pin_is_a_list_that_is_not_empty(value: str, why: str) -> None:
    assert why in problems_of(f"runner = {value}")["pin.runner"]


def test_a_command_without_a_runner_has_none_to_pin() -> None:
    text = TEXT.replace('argv = ["node", ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"', 'argv = ["node", "--check"')
    assert text != TEXT

    assert "pins nothing" in problems_of(f'runner = ["{ONE}"]', text)["pin.runner"]
