"""Do a few rounds of `make cockpit-rounds` find nothing? (`SANDBOXD_COCKPIT_ROUNDS=200` plays so many)"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cockpit.rounds import Campaign

ROUNDS = int(os.environ.get("SANDBOXD_COCKPIT_ROUNDS", "2"))


@pytest.mark.slow
def test_a_cockpit_and_its_host_are_killed_and_no_answer_is_lost_doubled_or_typed_elsewhere(tmp_path: Path, node: Path) -> None:
    campaign = Campaign(tmp_path, str(node), seed=3)  # the cockpit, then its host
    try:
        figures = campaign.play(ROUNDS)
    finally:
        campaign.end()

    assert figures.wrong == [], "\n".join(figures.lines())
    assert figures.rounds == ROUNDS
    assert figures.responded, "\n".join(figures.lines())  # rounds in which nothing was answered prove nothing
