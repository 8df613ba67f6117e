"""A few of the 200 rounds of `make rounds`: killed at a random moment, does it lose, leave or double anything?"""

from __future__ import annotations

from pathlib import Path

from tests.faults.rounds import Campaign

ROUNDS = 4
SHORTS = 20


def test_kills_at_random_moments_lose_leave_and_double_nothing(tmp_path: Path, node: Path):
    figures = Campaign(tmp_path, str(node)).run(ROUNDS, SHORTS)

    assert figures.holds, "\n".join([*figures.details(), *figures.lines()])
