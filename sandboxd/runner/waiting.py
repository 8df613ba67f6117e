"""What is a thread blocked in, and is it input from this terminal?

`/proc/PID/task/TID/syscall` names the call and its arguments; the sets of poll and select stand in the program's memory, those
of epoll in its descriptor's `fdinfo`. Reading another process's memory needs no privilege for the same user, and is bounded
here: a hostile program chooses what stands there.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import Final, Literal

from sandboxd.runner.tree import read_proc
from sandboxd.values import frozen

Call = Literal["read", "poll", "select", "epoll"]

# Numbers from each architecture's unistd.h; another one has no witness, and says so.
_CALLS: Final[dict[str, dict[int, Call]]] = {
    "x86_64": {
        0: "read",
        19: "read",  # readv
        7: "poll",
        271: "poll",  # ppoll
        23: "select",
        270: "select",  # pselect6
        232: "epoll",  # epoll_wait
        281: "epoll",  # epoll_pwait
        441: "epoll",  # epoll_pwait2
    },
    "aarch64": {63: "read", 65: "read", 73: "poll", 72: "select", 22: "epoll", 441: "epoll"},
}
# A 32-bit program on x86_64 keeps its own numbers; its sets look alike, for both count in little-endian words.
_CALLS_32: Final[dict[str, dict[int, Call]]] = {
    "x86_64": {
        3: "read",
        145: "read",  # readv
        168: "poll",
        309: "poll",  # ppoll
        414: "poll",  # ppoll_time64
        142: "select",  # _newselect
        308: "select",  # pselect6
        413: "select",  # pselect6_time64
        256: "epoll",  # epoll_wait
        319: "epoll",  # epoll_pwait
        441: "epoll",  # epoll_pwait2
    }
}
_STACK_32: Final = 1 << 32  # the stack of a 64-bit program is far above
_POLLFD: Final = struct.Struct("ihh")
_POLL_MAX: Final = 256  # entries of a poll set that are looked at
_SELECT_MAX: Final = 1024  # FD_SETSIZE
_POLLIN: Final = 0x0001 | 0x0040  # POLLIN, POLLRDNORM
_EPOLLIN: Final = 0x001 | 0x040
_EPOLL_MAX_BYTES: Final = 64 * 1024
_NESTED_MAX: Final = 2  # an epoll inside an epoll, as some runtimes have


class Unreadable(Exception):
    """The process does not let itself be looked at: another user's, or setuid."""


@frozen
class Wait:
    """A blocked call, and the descriptors that it wants to read from."""

    call: Call
    fds: tuple[int, ...]


def why_not_here() -> str:
    """Why no wait can be told on this machine; empty: it can."""
    machine = os.uname().machine
    if machine not in _CALLS:
        return f"system calls of {machine} are not known"
    # Whether another's may be read is up to that one, and this process's own may not: it is not dumpable.
    if not os.path.exists("/proc/self/syscall"):
        return "/proc/PID/syscall: there is none on this kernel"
    return ""


def wait_of(pid: int, tid: int) -> Wait | None:
    """What that thread waits for; None: it runs, or waits for something else, or is gone. `Unreadable` where it is refused."""
    try:
        fields = read_proc(f"/proc/{pid}/task/{tid}/syscall").split()
    except PermissionError:
        raise Unreadable from None
    except OSError:
        return None
    if len(fields) < 7 or not fields[0].isdigit():  # `running`, or -1: blocked outside of a call
        return None
    call = _calls_of(fields).get(int(fields[0]))
    first, second = (int(field, 16) for field in fields[1:3])
    match call:
        case "read":
            return Wait("read", (first,))
        case "poll":
            return Wait("poll", tuple(_polled(pid, first, second)))
        case "select":
            return Wait("select", tuple(_selected(pid, first, second)))
        case "epoll":
            return Wait("epoll", tuple(_watched(pid, first)))
        case None:
            return None


def _calls_of(fields: list[bytes]) -> dict[int, Call]:
    """The numbers that the thread's calls have: the last fields are its stack pointer and its program counter."""
    is_short = len(fields) == 9 and int(fields[7], 16) < _STACK_32
    return (_CALLS_32 if is_short else _CALLS).get(os.uname().machine, {})


def _polled(pid: int, address: int, count: int) -> Iterator[int]:
    data = _memory(pid, address, min(count, _POLL_MAX) * _POLLFD.size)
    for fd, events, _ in _POLLFD.iter_unpack(data[: len(data) // _POLLFD.size * _POLLFD.size]):
        if events & _POLLIN and fd >= 0:
            yield fd


def _selected(pid: int, count: int, address: int) -> Iterator[int]:
    if not address:
        return
    count = min(count, _SELECT_MAX)
    bits = int.from_bytes(_memory(pid, address, (count + 63) // 64 * 8), "little")
    for fd in range(count):
        if bits >> fd & 1:
            yield fd


def _watched(pid: int, epoll_fd: int, depth: int = 0) -> Iterator[int]:
    try:
        with open(f"/proc/{pid}/fdinfo/{epoll_fd}", "rb") as file:
            text = file.read(_EPOLL_MAX_BYTES)
    except PermissionError:
        raise Unreadable from None
    except OSError:
        return
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[0] == b"tfd:" and int(fields[3], 16) & _EPOLLIN:
            fd = int(fields[1])
            yield fd
            if depth < _NESTED_MAX and _is_epoll(pid, fd):
                yield from _watched(pid, fd, depth + 1)


def _is_epoll(pid: int, fd: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}") == "anon_inode:[eventpoll]"
    except OSError:
        return False


def _memory(pid: int, address: int, size: int) -> bytes:
    if not address or size <= 0:
        return b""
    try:
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise Unreadable from None
    except OSError:
        return b""
    try:
        return os.pread(fd, size, address)
    except (OSError, OverflowError):  # unmapped meanwhile, or an address that no kernel takes
        return b""
    finally:
        os.close(fd)


def first_of(fds: tuple[int, ...], is_wanted: Callable[[int], bool], *, most: int = 64) -> int | None:
    """The first of the descriptors that is wanted, looking at no more than `most`."""
    return next((fd for fd in fds[:most] if is_wanted(fd)), None)
