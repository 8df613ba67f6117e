"""What did a scenario come to?

A scenario passes, fails with findings, or is skipped with the reason why the target could not be judged by it. A finding says
which step, what was expected by which sentence of the spec, and what came.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import attrs

from sandboxd.conformance.sentences import Sentence
from sandboxd.values import frozen


class Verdict(enum.Enum):
    """How a scenario ended."""

    PASSED = "pass"
    FAILED = "fail"
    SKIPPED = "skip"


@frozen
class Finding:
    """One thing that is not as the spec has it."""

    step: str
    expected: str
    by: Sentence
    came: str


@frozen
class Result:
    """One scenario at one door; `door` is empty for what the whole target is asked."""

    scenario: str
    title: str
    door: str
    verdict: Verdict
    took_s: float
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] = attrs.field(factory=dict)


@frozen
class Report:
    """A whole run against one target."""

    target: str
    agent: str
    doors: tuple[str, ...]
    results: tuple[Result, ...]
    took_s: float
    notes: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """How many scenarios ended like that."""
        return sum(1 for result in self.results if result.verdict is verdict)

    @property
    def exit_code(self) -> int:
        """0 all that was judged passed, 1 something failed, 2 nothing could be judged."""
        if self.count(Verdict.FAILED):
            return 1
        return 0 if self.count(Verdict.PASSED) else 2


class Broken(Exception):
    """The target is not as the spec has it."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.expected)
        self.finding = finding


class CannotJudge(Exception):
    """This target cannot be judged by this scenario; the text says why."""


class CannotRun(Exception):
    """There is nothing to drive at all, or not as it was asked for; `cannot <do> <what>: <why>`."""


class Judge:
    """Keeps the step that a scenario is at, and what it found beside its verdict."""

    def __init__(self) -> None:
        self.step = ""
        self.notes: list[str] = []
        self.figures: dict[str, float] = {}

    def at(self, step: str) -> None:
        """The scenario goes on to this step."""
        self.step = step

    def note(self, text: str) -> None:
        """Something that is no fault, but that a reader of the report should know; told once."""
        if text not in self.notes:
            self.notes.append(text)

    def expect(self, holds: bool, expected: str, by: Sentence, came: object) -> None:
        """End the scenario unless that holds."""
        if not holds:
            self.fail(expected, by, came)

    def fail(self, expected: str, by: Sentence, came: object) -> NoReturn:
        """End the scenario with a finding."""
        raise Broken(Finding(self.step, expected, by, str(came)))

    def skip(self, why: str) -> NoReturn:
        """End the scenario without a verdict."""
        raise CannotJudge(why)


def find_key(value: Any, *names: str) -> Any | None:
    """The first value under one of these names, however deep; specs fix the names of error members, not where they stand."""
    waiting = [value]
    for _ in range(10_000):
        if not waiting:
            return None
        here = waiting.pop(0)
        if isinstance(here, Mapping):
            for name in names:
                if name in here:
                    return here[name]
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here
    return None


def clip(text: str, limit: int = 600) -> str:
    """The text, cut where it is too long for a report."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def listed(items: Iterable[object]) -> str:
    """Several things in one line."""
    return ", ".join(str(item) for item in items)
