"""How does a command get the very bytes that were checked?

A program opens its files by name, after the checks, and whoever can write below the root at that moment can swap them. Where
the policy says `hand-over = "bytes"`, the spawner copies what it read, and took the digest of, into a memory file, seals it
(memfd_create(2)), and the command finds it as a descriptor with a fixed number: its argument is `/proc/self/fd/3`. No other
process, the command itself included, can change it any more.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final

from sandboxd.policy.model import HANDED_FIRST, HANDED_MAX

_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_NOEXEC_SEAL: Final = 0x8  # linux/memfd.h, Linux 6.3: it cannot be executed either


def seal(content: bytes) -> int:
    """A descriptor (close-on-exec) of a file with these bytes that nobody can change."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create("handed-over", flags | _NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fd = os.memfd_create("handed-over", flags)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        os.fchmod(fd, 0o444)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


def reserve() -> None:
    """Keep the numbers at which a command finds its files free of anything that a child still needs. Once, at the start."""
    while (fd := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) < HANDED_FIRST + HANDED_MAX:
        pass
    os.close(fd)


def place(handed: Sequence[int]) -> int:
    """In the child: give them their numbers; the first number that is free after them."""
    for number, fd in enumerate(handed, HANDED_FIRST):
        os.dup2(fd, number)  # inheritable
    return HANDED_FIRST + len(handed)
