"""Does a daemon whose clock is set, by minutes or by days, go on and say what is true?

In front of it alone, by libfaketime: what it asks for the time of day is told otherwise, and no other clock is. A whole machine
whose clock is set is tried in `test_own_kernel.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import clock_story
from tests.support.daemon import Daemon, output_of, state_of, wait_until

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


pytestmark = pytest.mark.skipif(LIBRARY is None, reason="NOT TESTED HERE: a clock that is set (there is no libfaketime)")
Set = Callable[[float], None]


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Set]:
    """For all that is started from now on: so many seconds before, or behind, what it is."""
    offset = tmp_path / "offset"

    def set_to(seconds: float) -> None:
        made = tmp_path / "next"
        made.write_text(f"{seconds:+.0f}")
        made.replace(offset)

    set_to(0)
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    for name, value in {
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",  # it reads the file each time
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",  # as older versions call it
        "NO_FAKE_STAT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    before = left_behind()
    yield set_to
    for path in left_behind() - before:
        path.unlink()


def test_a_clock_that_is_set_back_loses_reorders_and_delays_nothing(make_daemon: Callable[..., Daemon], set_clock: Set):
    back_s = 0.0

    def set_back(more_s: float) -> None:
        nonlocal back_s
        back_s += more_s
        set_clock(-back_s)

    told = clock_story.live_through(make_daemon(extra=clock_story.LIMITS), set_back, lambda: time.time() - back_s)

    clock_story.check(told)


def test_a_clock_that_leapt_forward_makes_a_restarted_daemon_forget_nothing(make_daemon: Callable[..., Daemon], set_clock: Set):
    daemon = make_daemon(extra="[retention]\ntasks_days = 1\n")
    kept = daemon.run([["print", "kept\n"]])
    note = daemon.folder / "state/clock.json"
    wait_until(note.exists, what="its note of the clock")
    daemon.stop()
    set_clock(1000 * 86_400)
    daemon.start()  # it tidies up when it starts

    wait_until(lambda: "clock leapt forward" in daemon.log(), what="a word about the clock")
    assert state_of(daemon.run([["print", "more\n"]])) == "COMPLETED"
    assert output_of(daemon.get(kept["id"])) == "kept\r\n"

    # The control: a daemon that knows of no leap believes the clock.
    daemon.stop()
    note.unlink()
    daemon.start()

    def is_gone() -> bool:
        with daemon.client() as client:
            return client.get(f"/tasks/{kept['id']}").status_code == 404

    wait_until(is_gone, what="the end of the task")


def left_behind() -> set[Path]:
    """What the library makes for each process, and leaves when that ends without the interpreter's own end."""
    return set(Path("/dev/shm").glob("*faketime_s*_*"))
