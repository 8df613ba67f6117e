"""Is the detector much faster than a regular expression over the tail after each read?

Half of what `benchmarks/detector_speed.py` asks for, since a busy machine measures worse.
"""

from __future__ import annotations

import pytest

from benchmarks.detector_speed import GOALS, measure, outputs

OUTPUTS = outputs()


@pytest.mark.parametrize(("name", "goal"), list(GOALS.items()))
def test_the_detector_outruns_a_pattern_over_the_tail(name: str, goal: float) -> None:
    assert max(measure(OUTPUTS[name]).times_faster for _ in range(3)) > goal / 2
