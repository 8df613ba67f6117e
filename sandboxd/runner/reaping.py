"""Which children have ended, and by what?"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator


def reaped() -> Iterator[tuple[int, int]]:
    """Pid and status of every child that has ended and was not waited for yet; does not wait."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def signal_name(number: int) -> str:
    """`SIGKILL`, `SIGRTMIN+3`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
