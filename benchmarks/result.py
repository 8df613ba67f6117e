"""What was measured, against what, and is that good enough?

A row holds pairs: ours and theirs, taken one right after the other in the same run, so that whatever else the machine does
meets both. What counts is the median over the pairs of their ratio (or difference), with the least and the most beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs


@attrs.frozen
class Goal:
    """A bound on the ratio ours ÷ theirs, on the difference ours − theirs, or on the value itself, in the row's unit."""

    at: Literal["most", "least"]
    bound: float
    of: Literal["ratio", "difference", "value"] = "ratio"

    def figure(self, ours: float, theirs: float) -> float:
        """What one pair says."""
        match self.of:
            case "ratio":
                return ours / theirs
            case "difference":
                return ours - theirs
            case "value":
                return ours

    def is_met(self, figure: float) -> bool:
        """Whether that figure is within the bound."""
        return figure <= self.bound if self.at == "most" else figure >= self.bound

    def spelled(self, figure: float, unit: str) -> str:
        """A figure as this goal's kind is written: `2.4x`, `+3 ms`, `4.1 ms`."""
        number = f"{figure:.3g}" if abs(figure) < 1000 else f"{figure:,.0f}"
        match self.of:
            case "ratio":
                return f"{number}x"
            case "difference":
                return f"{figure:+.3g} {unit}"
            case "value":
                return f"{number} {unit}"


@attrs.frozen
class Row:
    """One line of the table. `ours` and `theirs` are in `unit`, pair by pair; without a peer `theirs` is empty."""

    what: str
    against: str
    goal: Goal
    unit: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...] = ()
    note: str = ""

    @property
    def figures(self) -> tuple[float, ...]:
        """Each pair's figure."""
        theirs = self.theirs or (1.0,) * len(self.ours)
        return tuple(self.goal.figure(mine, other) for mine, other in zip(self.ours, theirs, strict=True))

    @property
    def figure(self) -> float:
        """The median over the pairs."""
        return statistics.median(self.figures)

    @property
    def is_met(self) -> bool:
        """Whether the goal is met."""
        return self.goal.is_met(self.figure)

    def to_json(self) -> dict[str, Any]:
        """All of it, for `results.json`."""
        return {
            "what": self.what,
            "against": self.against,
            "unit": self.unit,
            "goal": attrs.asdict(self.goal),
            "ours": list(self.ours),
            "theirs": list(self.theirs),
            "figure": self.figure,
            "least": min(self.figures),
            "most": max(self.figures),
            "is_met": self.is_met,
            "note": self.note,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which that share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def pairs(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Measure both in turn, `rounds` times; who goes first changes from round to round."""
    mine, others = [], []
    for number in range(rounds):
        if number % 2:
            others.append(theirs())
            mine.append(ours())
        else:
            mine.append(ours())
            others.append(theirs())
    return tuple(mine), tuple(others)
