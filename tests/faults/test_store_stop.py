"""Does a daemon whose disk takes nothing any more stop in bounded time, and say what it could not keep?"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.support.daemon import Daemon, outcome_of, processes_with, wait_until

ASK = ["ask", "Proceed? [y/N] "]


def is_held_up(daemon: Daemon, task_id: str) -> bool:
    return any("Cannot append to the store" in line and task_id in line for line in daemon.log().splitlines())


def test_a_stop_with_a_full_disk_ends_soon_with_a_truthful_code(daemon: Daemon, fill_disk: Callable[..., None]):
    asking = daemon.run([ASK, ["hang"]])
    other = daemon.run([["print", "up\n"], ["hang"]], wait=False)
    wait_until(lambda: processes_with(other["id"]))
    fill_disk(daemon, full=True)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(daemon.answer, asking, "y")
        wait_until(lambda: is_held_up(daemon, asking["id"]), what="the answer on its way to the disk")
        began = time.monotonic()
        code = daemon.stop()
        took_s = time.monotonic() - began

    assert code == 1
    assert took_s < 12  # the stop ladder and a little more; it took 21
    assert "error: cannot put the ends of 2 tasks on record" in daemon.log()
    assert answer.exception() is not None or answer.result().status_code == 503
    assert not processes_with(asking["id"])
    assert not processes_with(other["id"])
    daemon.start()
    for task in (asking, other):
        assert outcome_of(daemon.until(task["id"], "FAILED"))["reason"] == "daemon-died"
