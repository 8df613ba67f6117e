"""How is one attack written down?

An attack is a function that tries one thing and returns what it got hold of, as text; `None`: nothing came of it. An `OSError`
is how the kernel says no. Only the standard library is used: this runs as a task, with the interpreter of the host.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from types import SimpleNamespace

# What the harness lets an attack know: the paths, pids, ports and names of its victims. An attacker may be that lucky.
Targets = SimpleNamespace
Attack = Callable[[Targets], "str | None"]

ATTACKS: dict[str, Attack] = {}
BOMBS: dict[str, Attack] = {}  # these hurt a host that does not stop them, so they run only where a level promises to

# x86_64; from 424 on they are the same everywhere
SYS = {
    "mmap": 9, "mprotect": 10, "ioctl": 16, "madvise": 28, "shmget": 29, "shmat": 30, "shmctl": 31, "getpid": 39,
    "socket": 41, "socketpair": 53, "clone": 56, "kill": 62, "semget": 64, "semctl": 66, "msgget": 68, "msgctl": 71,
    "chmod": 90, "ptrace": 101, "syslog": 103, "rt_sigqueueinfo": 129, "capget": 125, "personality": 135,
    "setpriority": 141, "sched_setscheduler": 144, "io_setup": 206, "fallocate": 285, "modify_ldt": 154, "pivot_root": 155,
    "adjtimex": 159, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "reboot": 169,
    "sethostname": 170, "iopl": 172, "ioperm": 173, "init_module": 175, "quotactl": 179, "tkill": 200, "timer_create": 222,
    "clock_gettime": 228, "clock_settime": 227, "tgkill": 234, "mq_open": 240, "mq_unlink": 241, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251, "ioprio_get": 252, "inotify_add_watch": 254,
    "migrate_pages": 256, "linkat": 265, "unshare": 272, "get_robust_list": 274, "move_pages": 279, "inotify_init1": 294,
    "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "sched_setattr": 314, "sched_getattr": 315, "renameat2": 316, "seccomp": 317, "memfd_create": 319, "bpf": 321,
    "execveat": 322, "userfaultfd": 323, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fspick": 433, "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "landlock_create_ruleset": 444,
    "landlock_add_rule": 445, "landlock_restrict_self": 446, "process_mrelease": 448, "fchmodat2": 452, "statmount": 457,
    "listmount": 458, "setxattrat": 463, "getxattrat": 464, "listxattrat": 465, "file_setattr": 469,
}  # fmt: skip
X32_BIT = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def attack(run: Attack) -> Attack:
    """Put the function among the attacks, under its name."""
    assert run.__name__ not in ATTACKS
    ATTACKS[run.__name__] = run
    return run


def bomb(run: Attack) -> Attack:
    """Put the function among those that are tried only where a level promises to stop them."""
    assert run.__name__ not in BOMBS
    BOMBS[run.__name__] = run
    return run


def syscall(name: str | int, *arguments: object) -> int:
    """The kernel's own answer, past the C library's manners; `OSError` as the kernel says."""
    number = SYS[name] if isinstance(name, str) else name
    plain = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    ctypes.set_errno(0)
    result = int(_libc.syscall(ctypes.c_long(number), *plain))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def read(path: str, most: int = 4096) -> bytes:
    """The first bytes of a file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)


def write(path: str, text: str, flags: int = os.O_WRONLY | os.O_APPEND) -> str:
    """What was written into an existing file."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
    return f"wrote {path}"


def first(tries: list[Callable[[], str | None]]) -> str | None:
    """The first of several ways that leads anywhere; else the last refusal."""
    refusal: OSError | None = None
    for one in tries:
        try:
            if found := one():
                return found
        except OSError as error:
            refusal = error
    if refusal is not None:
        raise refusal
    return None


def absent(why: str) -> OSError:
    """What cannot be tried here."""
    return OSError(errno.ENOSYS, why)
