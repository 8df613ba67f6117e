"""Does a daemon whose clock is set back, by minutes or by days, go on and say what is true?

In front of it alone, by libfaketime: what it asks for the time of day is told otherwise, and no other clock is. A whole machine
whose clock is set back is tried in `test_own_kernel.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import clock_story
from tests.support.daemon import Daemon

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.mark.skipif(LIBRARY is None, reason="NOT TESTED HERE: a clock that is set back (there is no libfaketime)")
def test_a_clock_that_is_set_back_loses_reorders_and_delays_nothing(
    tmp_path: Path, make_daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
):
    offset = tmp_path / "offset"
    offset.write_text("+0")
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    for name, value in {
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",  # it reads the file each time
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",  # as older versions call it
        "NO_FAKE_STAT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    back_s = 0.0

    def set_back(more_s: float) -> None:
        nonlocal back_s
        back_s += more_s
        made = tmp_path / "next"
        made.write_text(f"-{back_s:.0f}")
        made.replace(offset)

    before = left_behind()
    daemon = make_daemon(extra=clock_story.LIMITS)
    told = clock_story.live_through(daemon, set_back, lambda: time.time() - back_s)
    for path in left_behind() - before:
        path.unlink()

    clock_story.check(told)


def left_behind() -> set[Path]:
    """What the library makes for each process, and leaves when that ends without the interpreter's own end."""
    return set(Path("/dev/shm").glob("*faketime_s*_*"))
