"""Does a program that floods its terminal hold up the questions of another task?

The figures are measured by `benchmarks/hostile_output.py` on an idle machine; here only what a busy one cannot
make false is asserted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hostile_output import FLOODS, GOAL_MS, measure


@pytest.mark.parametrize("flood", ["a title that never ends", "100,000 [y/N] a second"])
def test_a_flood_delays_no_question_of_another_task(tmp_path: Path, flood: str) -> None:
    for attempt in range(3):
        quiet, beside = tmp_path / f"quiet-{attempt}", tmp_path / f"beside-{attempt}"
        quiet.mkdir()
        beside.mkdir()
        usual_ms = measure(quiet, "", questions=5).median
        flooded_ms = measure(beside, FLOODS[flood], questions=5).median
        if flooded_ms < usual_ms + GOAL_MS:
            return
    assert flooded_ms < usual_ms + GOAL_MS
