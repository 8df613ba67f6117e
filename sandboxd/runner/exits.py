"""Who has ended, and how?

For the process that reaps: the spawner, whose children are the leaders of all runs and whatever they orphan.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandboxd.runner import cgroup


def reaped() -> Iterator[tuple[int, int]]:
    """The pid and wait status of every child that has ended; each is told once, and gone then."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSTOPPED(status):  # a child may ask to be traced by its parent (ptrace(2)), which is told of its stops then
            continue
        yield pid, status


def ending_of(status: int, place: Path | None, *, is_full: bool = False) -> dict[str, Any]:
    """What the daemon is told of a leader's end: its code, or its signal and whether that was the kernel's for want of memory.

    `place`: the run's cgroup, whose count tells that KILL from anybody else's. `is_full`: the KILL is the spawner's, for the
    size of its temporary folder.
    """
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return {"code": code}
    if is_full and code == -signal.SIGKILL:
        return {"signal": _signal_name(-code), "full": True}
    is_oom = code == -signal.SIGKILL and place is not None and cgroup.oom_kills(place) > 0
    return {"signal": _signal_name(-code), "oom": is_oom}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
