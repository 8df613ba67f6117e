"""How much of the host can a task use up?

Tried only where a level promises to stop it. Each returns what it got beyond the bound that the harness names.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import time

from tests.hostile.attacks.craft import Targets, bomb, syscall

MIB = 1024 * 1024
_OPEN: list[int] = []
_HELD: list[socket.socket] = []  # until this process ends


def fill(folder: str, name: str, most: int, *, each: int) -> int:
    """Bytes that fit in files of `each`, at most `most` of them; they are given back."""
    paths: list[str] = []
    written = 0
    try:
        while written < most:
            paths.append(os.path.join(folder, f"{name}-{len(paths)}"))
            wrote = fill_one(paths[-1], min(each, most - written))
            written += wrote
            if wrote < each:
                break
    finally:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return written


def fill_one(path: str, most: int) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    written = 0
    block = bytes(4 * MIB)
    try:
        while written < most:
            written += os.write(fd, block[: most - written])
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
    finally:
        os.close(fd)
    return written


def fill_and_keep(most: int) -> int:
    """Temporary files that stay: half of them by name, the others open and without one; bytes that there was room for."""
    folder = os.environ.get("TMPDIR", "/tmp")
    written = 0
    while written < most:
        path = os.path.join(folder, f"fill-{written}")
        wrote = fill_one(path, min(4 * MIB, most - written))
        if written // (4 * MIB) % 2:
            _OPEN.append(os.open(path, os.O_RDONLY))
            os.unlink(path)
        written += wrote
        if wrote < 4 * MIB:
            break
    return written


def name_many(most: int) -> int:
    """Temporary files without content, which have no size; how many there could be."""
    folder = os.environ.get("TMPDIR", "/tmp")
    try:
        for count in range(most):
            os.close(os.open(os.path.join(folder, f"name-{count}"), os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return count
    return most


@bomb
def fill_shared_memory(t: Targets) -> str | None:
    return f"{fill('/dev/shm', t.tag + 'fill', 8 * MIB, each=MIB)} bytes"


@bomb
def fill_dev(t: Targets) -> str | None:
    return f"{fill('/dev', t.tag + 'fill', 8 * MIB, each=MIB)} bytes"


@bomb
def fill_root(t: Targets) -> str | None:
    """The root of a sandbox is a file system too."""
    return f"{fill('/', t.tag + 'fill', 8 * MIB, each=MIB)} bytes"


@bomb
def one_huge_file(t: Targets) -> str | None:
    written = fill(t.runs, "huge", t.file_bytes + 8 * MIB, each=t.file_bytes + 8 * MIB)
    return f"{written} bytes" if written > t.file_bytes else None


@bomb
def space_past_the_size(t: Targets) -> str | None:
    """fallocate(2), FALLOC_FL_KEEP_SIZE: blocks beyond the end of a file, at which RLIMIT_FSIZE does not look."""
    path = os.path.join(t.runs, "reserved")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        syscall("fallocate", fd, 1, 0, t.file_bytes + 8 * MIB)
        got = os.fstat(fd).st_blocks * 512
    finally:
        os.close(fd)
        os.unlink(path)
    return f"{got} bytes" if got > t.file_bytes else None


@bomb
def memory(t: Targets) -> str | None:
    """Twice what the policy allows, in one process."""
    try:
        block = bytearray(2 * t.memory_bytes)
    except MemoryError:
        return None
    return f"{len(block)} bytes"


@bomb
def forks(t: Targets) -> str | None:
    """More processes than the policy allows, all there at once."""
    count = fork_as_many_as(t.processes + 40)
    return f"{count} processes" if count >= t.processes + 40 else None


def fork_as_many_as(most: int) -> int:
    """How many children there could be; they end with this process."""
    ours, theirs = os.pipe()
    for count in range(most):
        try:
            child = os.fork()
        except BlockingIOError:
            return count
        if child == 0:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(0)
    os.close(ours)
    return most


def hoard_descriptors() -> int:
    """As many as the kernel lets a user have on their way through sockets (unix(7), ETOOMANYREFS), and they stay there."""
    held: list[socket.socket] = []
    count = 0
    fds = array.array("i", [0] * 250)
    with contextlib.suppress(OSError):
        while True:
            pair = socket.socketpair()
            held += pair
            pair[0].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    pair[0].sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                    count += len(fds)
    _HELD.extend(held)
    return count


@bomb
def zombies(t: Targets) -> str | None:
    """Orphans that somebody has to reap: none is left to count against the next run."""
    for _ in range(30):
        if os.fork() == 0:
            if os.fork() == 0:
                time.sleep(0.01)
            os._exit(0)
    return None
