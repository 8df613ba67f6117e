"""Which files may this process and all that it starts touch from now on?

Landlock (landlock(7)) by ctypes: no library has what is needed here (rules by descriptor, device calls, network, scopes). Rules
name descriptors, never paths, so what was checked is what is allowed. Everything that the kernel's ABI knows is handled, so
whatever no rule gives is denied: files, TCP, signals and abstract sockets to processes outside.

Landlock restricts opening, not knowing: `stat`, and changes of mode, owner, times and attributes pass it. `seccomp` and
bubblewrap's read-only mounts take those.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import Final

from sandboxd.runner import linux

# linux/landlock.h
EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REMOVE_DIR: Final = 1 << 4
REMOVE_FILE: Final = 1 << 5
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
MAKE_FIFO: Final = 1 << 10
MAKE_SYM: Final = 1 << 12
REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15

READ: Final = READ_FILE | READ_DIR
RUN: Final = READ | EXECUTE
# No symlink, fifo, socket or device: later readers of what a run leaves behind would trip over them, or worse. REFER moves and
# links between folders that are both writable; from elsewhere it is EXDEV.
WRITE: Final = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER
SCRATCH: Final = WRITE | MAKE_SYM | MAKE_FIFO  # a run's own temporary folder, which nobody else reads
TERMINAL: Final = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

_FILE: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what a rule on something else than a folder may have
_FS_SINCE: Final = ((1, 13), (2, 14), (3, 15), (5, 16))  # ABI, and how many bits of access there are from it on
_NET_BIND_CONNECT_TCP: Final = 0b11  # ABI 4
_SCOPES: Final = 0b11  # ABI 6: abstract sockets, signals
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_CREATE_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1

_WHY: Final = {
    errno.ENOSYS: ("this kernel was built without it", "a kernel with CONFIG_SECURITY_LANDLOCK (Linux 5.13 or newer)"),
    errno.EOPNOTSUPP: ("it is not turned on", "boot with `landlock` in `lsm=`"),
    errno.EPERM: (
        "a system call filter above this process forbids it",
        "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self (SystemCallFilter= of the unit, or the "
        "container's seccomp profile)",
    ),
}


def abi() -> int:
    """The kernel's ABI version, from 1; `OSError` where Landlock cannot be used (`why_not` says it in words)."""
    return linux.syscall(_CREATE, None, ctypes.c_size_t(0), _CREATE_VERSION)


def why_not(error: OSError) -> tuple[str, str]:
    """Why Landlock cannot be used, and what helps."""
    known = _WHY.get(error.errno or 0)
    return known or (os.strerror(error.errno or 0).lower(), "Linux 5.13 or newer")


class Ruleset:
    """Rules that are being put together; `restrict_self` makes them count. The descriptor is closed by `close`."""

    def __init__(self, version: int, *, network: bool = False) -> None:
        """A set without a rule for a kernel of that ABI; `network`: leave TCP alone."""
        self.version = version
        self.handled = (1 << max(bits for since, bits in _FS_SINCE if version >= since)) - 1
        net = 0 if network else _NET_BIND_CONNECT_TCP
        whole = struct.pack("=QQQ", self.handled, net, _SCOPES)
        size = 8 if version < 4 else 16 if version < 6 else 24
        self.fd = linux.syscall(_CREATE, whole[:size], ctypes.c_size_t(size), 0)

    def allow(self, fd: int, access: int) -> None:
        """Let what `fd` names (O_PATH will do), and all below it, be used so.

        Rights that this kernel does not know are left out: it cannot deny them either.
        """
        granted = access & self.handled
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            granted &= _FILE
        rule = struct.pack("=Qi", granted, fd)
        linux.syscall(_ADD, self.fd, _RULE_PATH_BENEATH, rule, 0)

    def allow_path(self, path: str, access: int) -> None:
        """The same for a name of the host's own; nothing happens where there is none."""
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            self.allow(fd, access)
        finally:
            os.close(fd)

    def restrict_self(self) -> None:
        """From here on this thread and everything that it starts is bound. Needs no_new_privs."""
        linux.syscall(_RESTRICT, self.fd, 0)

    def close(self) -> None:
        """Give the descriptor back; what is in force stays."""
        os.close(self.fd)
