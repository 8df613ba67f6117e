"""Which kernel calls does the runner need that Python does not offer?

openat2(2), prctl(2) and timerfd_create(2), by ctypes. The library is loaded on import, so a forked child can call `prctl`
without importing anything.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import time
from pathlib import Path
from typing import Any, Final

# linux/openat2.h
RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

# linux/prctl.h
PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

# malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 128 * 1024  # glibc's own first threshold, which it would raise to 32 MiB

_SYS_OPENAT2: Final = 437  # the same number on every architecture: it is younger than the unified tables
_SYS_CLONE3: Final = 435  # likewise
_CLONE_INTO_CGROUP: Final = 0x2_0000_0000  # linux/sched.h
_AGAIN_TRIES: Final = 8  # openat2(2): EAGAIN when something was renamed at that moment; more would let an attacker stall us

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.syscall.argtypes = (ctypes.c_long,)  # of more there may be any
_libc.prctl.restype = ctypes.c_int
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_CAPABILITY_VERSION_3: Final = 0x20080522  # linux/capability.h: two rows of three sets


def openat2(folder_fd: int, path: str, flags: int, *, resolve: int) -> int:
    """A descriptor (close-on-exec) of `path` below the folder; `OSError` as the kernel says."""
    name = os.fsencode(path)
    if b"\0" in name:  # C would read the text up to there, and open another file
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)
    code = errno.EAGAIN
    for _ in range(_AGAIN_TRIES):
        fd = int(_libc.syscall(_SYS_OPENAT2, folder_fd, name, how, ctypes.c_size_t(len(how))))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process (of this thread, for PR_SET_PDEATHSIG)."""
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def give_memory_back() -> None:
    """Have glibc return large buffers when they are freed, and share its heaps between threads (mallopt(3)).

    By itself it keeps what a thread once needed at most, for each thread, and takes larger and larger buffers from there: with
    40 asking tasks the daemon grew by a third more in the same time. Elsewhere (musl) there is no such thing to set.
    """
    if mallopt := getattr(_libc, "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def syscall(number: int, *arguments: Any) -> int:
    """What that call returned; `OSError` as the kernel says.

    A plain number is 32 bits wide, which the kernel's int and unsigned int are; any other is wrapped by the caller: C cannot
    know its size.
    """
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def setns(fd: int, flags: int) -> None:
    """Join the namespaces of the process behind a pidfd (setns(2), Linux 5.8)."""
    if _libc.setns(ctypes.c_int(fd), ctypes.c_int(flags)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def fork(cgroup_fd: int | None) -> tuple[int, bool]:
    """fork(2): the child's pid, 0 in the child, and whether it was born in the cgroup whose directory that is.

    clone3(2), Linux 5.7. A process that is moved waits for a grace period of the kernel's, 10 ms and more; one that is born
    there does not. Where clone3 is forbidden (ENOSYS in a unit with RestrictNamespaces=) the child has to move. For a process
    with one thread: what the C library and Python do about others at a fork is left out.
    """
    if cgroup_fd is not None:
        arguments = struct.pack("=11Q", _CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, cgroup_fd)
        pid = int(_libc.syscall(_SYS_CLONE3, arguments, ctypes.c_size_t(len(arguments))))
        if pid >= 0:
            return pid, True
    return os.fork(), cgroup_fd is None


def drop_from_bounding_set(number: int) -> bool:
    """Give up that capability for good; False when the kernel knows none of that number."""
    try:
        prctl(PR_CAPBSET_DROP, number)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True


def drop_all_capabilities() -> None:
    """The effective, permitted and inheritable sets of this thread are empty from here on."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, bytes(24)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def keep_capabilities_from_children() -> None:
    """Nothing of this process's is handed down when a child executes a program, unless it is root's (capabilities(7))."""
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def become_subreaper() -> None:
    """Orphaned descendants of this process become its children, instead of init's."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def why_no_openat2() -> str | None:
    """Why paths cannot be opened without races on this kernel, or None."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(openat2(root, ".", os.O_PATH | os.O_DIRECTORY, resolve=RESOLVE_BENEATH))
    except OSError as error:
        return f"openat2 does not work here ({error.strerror}; Linux 5.6 or newer, and no filter against it, is needed)"
    finally:
        os.close(root)
    if not Path("/proc/self/fd").is_dir():
        return "/proc is not mounted"
    return None


def keep_standard_descriptors() -> None:
    """A descriptor below 3 would be taken for a standard stream, or closed over, in a child."""
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) < 3:
        os.set_inheritable(fd, True)
    os.close(fd)


def open_timer() -> int:
    """A descriptor (close-on-exec, non-blocking) that is readable once the time that `set_timer` gave it has passed."""
    fd = int(_libc.timerfd_create(ctypes.c_int(time.CLOCK_MONOTONIC), ctypes.c_int(os.O_CLOEXEC | os.O_NONBLOCK)))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def set_timer(fd: int, after_s: float) -> None:
    """Have it be readable that much later, and not before (timerfd_settime(2)): at once where it is nothing or less."""
    whole, part_ns = divmod(max(int(after_s * 1e9), 1), 1_000_000_000)  # 0 would switch it off
    if _libc.timerfd_settime(ctypes.c_int(fd), ctypes.c_int(0), struct.pack("@4l", 0, 0, whole, part_ns), None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
