"""No epoll watch is left to the daemon's user, for a task has them all: who waits goes on waiting, by poll."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from sandboxd import watches
from tests.hostile.hostile_daemon import HostileDaemon
from tests.support.daemon import REPOSITORY, output_of, state_of
from tests.support.no_watches import EPOLL_CTL, take_them_all

pytestmark = pytest.mark.skipif(platform.machine() not in EPOLL_CTL, reason="NOT TESTED HERE: no number of epoll_ctl known")


def without_watches(act: Callable[[], Awaitable[None]], *, before: bool) -> None:
    """Run that in an event loop of a child's own; `before`: the loop itself has found no watch already."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            watches.do_without(lambda: None)
            if before:
                take_them_all()
            trio.run(_acted, act, before)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def _acted(act: Callable[[], Awaitable[None]], is_done: bool) -> None:
    with trio.fail_after(20):
        await trio.lowlevel.checkpoint()
        if not is_done:
            take_them_all()
        await act()


async def talk() -> None:
    ours, theirs = trio.socket.socketpair()
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(ours.send, b"%d" % number)
            await theirs.recv(16)
    nobody, _ = trio.socket.socketpair()
    with trio.move_on_after(0.01) as scope:
        await nobody.recv(1)
    assert scope.cancelled_caught


async def close_while_somebody_waits() -> None:
    ours, _theirs = trio.socket.socketpair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_closed_under, ours)
        await trio.testing.wait_all_tasks_blocked()
        number = ours.fileno()
        ours.close()
        again, theirs = trio.socket.socketpair()  # with the number of the one that is closed
        assert number in (again.fileno(), theirs.fileno())
        await theirs.send(b"x")
        assert await again.recv(1) == b"x"


async def _closed_under(sock: trio.socket.SocketType) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await sock.recv(1)


async def hear_from_a_thread() -> None:
    assert await trio.to_thread.run_sync(socket.gethostname) == socket.gethostname()
    assert (await trio.run_process(["/bin/echo", "x"], capture_stdout=True)).stdout == b"x\n"


@pytest.mark.parametrize("before", [True, False], ids=["from the start", "meanwhile"])
@pytest.mark.parametrize("act", [talk, close_while_somebody_waits, hear_from_a_thread])
def test_an_event_loop_does_without_watches(act, before):
    without_watches(act, before=before)


class WatchlessDaemon(HostileDaemon):
    """It and its tasks get none; the tasks' program needs none."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.no_watches", *super().command()]


def test_a_daemon_serves_and_runs_without_watches_and_says_so_once(tmp_path: Path):
    daemon = WatchlessDaemon(tmp_path, "none")
    daemon.start()
    try:
        done = [daemon.send({"targets": {}, "only": ["environment_of_the_daemon"]}) for _ in range(3)]
        log = daemon.log()
    finally:
        daemon.end()

    assert [state_of(task) for task in done] == ["COMPLETED"] * 3
    assert '"done": 1' in output_of(done[0])
    assert log.count("no epoll watch is left") == 1


def test_what_takes_them_all_is_what_the_kernel_says():
    """The control: without it a loop fails."""
    run = "from tests.support.no_watches import take_them_all as take; import trio; take(); trio.run(trio.sleep, 0)"
    done = subprocess.run([sys.executable, "-c", run], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)

    assert "No space left on device" in done.stderr
