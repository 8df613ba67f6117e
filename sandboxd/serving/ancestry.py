"""Is this process one that a task started?

Every process of every run descends from the spawner, which is their subreaper: whoever loses its parent is adopted by it, so
a walk up the parents meets it. `/proc` gives one moment a line, so the walk is checked: a parent is never younger than its
child, each is the same process before and after its parent was read, and the peer is alive at the end. What cannot be
verified is not let in.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from sandboxd.values import frozen

_PEER_PIDFD: Final = 77  # SO_PEERPIDFD, Linux 6.5; the socket module has no name for it yet
_WALKS: Final = 5
_DEPTH_MAX: Final = 256

Verdict = Literal["outsider", "descendant", "gone", "unclear"]


@frozen
class Credentials:
    """SO_PEERCRED (unix(7)): who connected, as the kernel saw it at that moment."""

    pid: int
    uid: int


@frozen
class ProcessLine:
    """What a walk needs of `/proc/PID/stat` (proc(5)): fields 4 and 22, `starttime` in clock ticks since boot."""

    parent: int
    started: int


def peer_credentials(sock: socket.socket) -> Credentials:
    """Who is at the other end of a connected Unix socket."""
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return Credentials(pid, uid & 0xFFFFFFFF)


def peer_pidfd(sock: socket.socket, pid: int) -> int | None:
    """A descriptor of the peer's process, which no other process can take over; None: it is gone."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _PEER_PIDFD)
    except OSError:
        pass  # an older kernel, or (ESRCH, EINVAL) a process that was reaped: then the next call fails too
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def judge(pid: int, pidfd: int | None, ancestor: int, read: Callable[[int], ProcessLine | None]) -> Verdict:
    """Whether `ancestor` is among the ancestors of `pid`, or is `pid` itself.

    `read` gives a process's line, None when there is no such process.
    """
    if pid <= 0:
        return "unclear"  # a peer of another pid namespace has no number here
    for _ in range(_WALKS):
        if pidfd is None or _has_exited(pidfd):
            return "gone"
        verdict = _walk(pid, ancestor, read)
        if verdict == "descendant":
            return verdict
        if verdict == "outsider":
            return "gone" if _has_exited(pidfd) else verdict
    return "unclear"


def read_stat(pid: int) -> ProcessLine | None:
    """The line of a process, from `/proc`."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold blanks and parentheses
    return ProcessLine(int(fields[1]), int(fields[19]))


def _walk(pid: int, ancestor: int, read: Callable[[int], ProcessLine | None]) -> Verdict:
    line = read(pid)
    for _ in range(_DEPTH_MAX):
        if pid == ancestor:
            return "descendant"
        if line is None:
            return "unclear"
        if line.parent <= 0:
            return "outsider"  # init, or the first process that this namespace shows
        above = read(line.parent)
        # The child again: had it been adopted in between, `above` could be a stranger with a reused number.
        if above is None or above.started > line.started or read(pid) != line:
            return "descendant" if line.parent == ancestor else "unclear"
        pid, line = line.parent, above
    return "unclear"


def _has_exited(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
