"""The spawner is dead: how does the daemon end what it had started?

Its leaders died with it. With a cgroup, one write ends the rest. Without one, the daemon is a subreaper too, so the rest became
its children, and there is no guessing: a process that was forked by a run can be in no session of the daemon's, and every
descendant of the daemon that is in another session came from a spawner, except what the daemon itself put there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sandboxd.runner import cgroup, tree

BURY_S: Final = 3.0
_TICK_S: Final = 0.01


def bury(base: Path | None, spared: Collection[int]) -> list[int]:
    """End and reap everything that a dead spawner left; returns the pids that could not be ended. Blocks up to 3 s.

    `spared`: children of the daemon (with all below them) that have sessions of their own and are not to be touched.
    """
    deadline = time.monotonic() + BURY_S
    empty_looks = 0  # what was forked behind a look, by one that died before it was looked at, is seen by the next
    while True:
        if base is not None:
            cgroup.kill(base)
        left = [proc for proc in _left_behind(spared) if not _is_reaped(proc)]
        for proc in left:
            tree.send(proc, signal.SIGKILL)
        empty_looks = 0 if left else empty_looks + 1
        is_gone = empty_looks > 1 and (base is None or cgroup.remove(base))
        if is_gone or time.monotonic() >= deadline:
            return [proc.pid for proc in left]
        time.sleep(_TICK_S)


def other_sessions() -> set[int]:
    """Children of this process that are in other sessions now, before there is a spawner."""
    mine = os.getsid(0)
    found = (tree.look(pid) for pid in tree.children_of(os.getpid()))
    return {proc.pid for proc in found if proc is not None and proc.session != mine}


def _left_behind(spared: Collection[int]) -> list[tree.Proc]:
    me, mine = os.getpid(), os.getsid(0)
    below = tree.descendants(tree.look_at_all(), me)
    return [proc for proc, child in below if child.pid not in spared and proc.session != mine]


def _is_reaped(proc: tree.Proc) -> bool:
    """Whether it is gone now: a zombie that is our child is waited for."""
    if not proc.is_zombie:
        return False
    with contextlib.suppress(ChildProcessError):  # it is somebody else's to reap
        os.waitpid(proc.pid, os.WNOHANG)
    return True
