"""Which system calls may a run make?

Everything that ordinary programs need, by the rule that what can reach outside of the run, or is a known way into the kernel,
is refused: sockets (only connected pairs are left), namespaces and mounts, other processes' memory, limits and priorities,
io_uring, keyrings, System V and POSIX queues, typing into a terminal, and whatever is newer than this list. Refused means an
errno, so that programs go on by other means; only a foreign table of calls (32-bit, x32) kills.

A file or folder with the set-user-id or set-group-id bit cannot be made: others who share the workspace could run it with the
rights of the daemon's user. openat2 keeps its mode in memory, so it fails with ENOSYS, and libraries fall back to openat.

At `standard` changing a file by its name alone (mode, owner, times, attributes) is refused too, and so is reading attributes:
Landlock does not know these calls, and the run has the daemon's user id. By a descriptor of a file that it may open they
still work. Neither may a run ask there for session, priority or scheduling by a pid, which might be another's; 0, its own,
works. sched_getaffinity says ENOSYS and not EPERM: glibc's pthread_getattr_np, which every runtime calls, asks by its own
thread's number and goes on after that alone. getpgid is left, for `killpg(getpgid(child))` is how children are ended, and so
is what pthread_getschedparam asks by its own thread's number (Node prints that it failed); of the pids in `hidden`, the
daemon's and the spawner's, they say that there is no such process. capget goes, whose pid stands in memory, and so do the
clocks of other processes' processor time. Inside bubblewrap the mounts say what may be changed, and there are no other
processes.

Whoever may look up a folder may watch it by inotify, the daemon's state folder too: at `standard` it is ENOSYS, as on a kernel
that was built without it, so that programs look again and again instead.

Of ioctls those of terminals are left, but for typing, and what tells of an open file; all others fail as unknown (ENOTTY):
by a descriptor for reading a file system would change flags and versions, make subvolumes and take keys, which neither Landlock
nor a mode knows of, and any socket at all tells the host's interfaces, a pair of Unix sockets too.

At `standard` a process may not hide its own descriptors either (PR_SET_DUMPABLE): the spawner measures temporary files by
them. A lease (F_SETLEASE) on a file that may be read keeps everybody else's writers waiting for 45 s; fallocate that keeps
the size takes space past RLIMIT_FSIZE; io_setup takes of what the whole machine has: they are refused at both levels.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

from sandboxd.runner import linux
from sandboxd.runner.isolation import bpf
from sandboxd.runner.isolation.bpf import Block
from sandboxd.runner.isolation.calls import LAST_KNOWN, MACHINES

# fmt: off
_REFUSED: Final = (
    # namespaces and mounts: the kernel's largest surface
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "statmount", "listmount",
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "process_madvise", "process_mrelease", "kcmp",
    "migrate_pages", "move_pages",
    # what is shared by a user's processes, whatever they may open
    "add_key", "request_key", "keyctl", "shmget", "shmat", "shmctl", "shmdt", "semget", "semctl", "semop", "semtimedop",
    "msgget", "msgctl", "msgsnd", "msgrcv", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
    "mq_getsetattr",
    # past the filter, past the paths, or far into the kernel
    "io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at", "bpf", "perf_event_open", "userfaultfd",
    "fanotify_init", "fanotify_mark", "lookup_dcookie", "memfd_secret", "modify_ldt", "iopl", "ioperm", "uselib", "io_setup",
    # the machine's own affairs
    "quotactl", "quotactl_fd", "swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "create_module", "acct", "settimeofday", "clock_settime", "adjtimex",
    "clock_adjtime", "sethostname", "setdomainname", "syslog", "vhangup", "nfsservctl",
)
_BY_NAME: Final = (
    "chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "futimesat", "file_setattr",
)
_WATCHES: Final = ("inotify_init", "inotify_init1", "inotify_add_watch")
_BY_CLOCK: Final = ("clock_gettime", "clock_getres", "clock_nanosleep", "timer_create")
_ASKS_BY_MEMORY: Final = ("capget", "name_to_handle_at")  # of any process, of any file that may be looked up
_ATTRIBUTES_BY_NAME: Final = (
    "setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat",
    "getxattr", "lgetxattr", "getxattrat", "listxattr", "llistxattr", "listxattrat", "file_getattr",
)
# fmt: on

# ioctls are sorted by their second byte. Of terminals', which are every descriptor's too (FIONREAD, FIOCLEX), all but these:
# TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD; TIOCEXCL, which would keep the daemon from looking whether an answer was read.
_OF_TERMINALS: Final = 0x5400
_TERMINAL_CALLS: Final = (0x5412, 0x541C, 0x541D, 0x5423, 0x540C)
# Of all others these, which tell of an open file, or share blocks between two: FS_IOC_GETFLAGS (and for 32 bits),
# FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, FS_IOC_FIEMAP, FIGETBSZ; FICLONE, FICLONERANGE, FIDEDUPERANGE; who owns a socket
# (FIOSETOWN to SIOCATMARK).
# fmt: off
_FILE_CALLS: Final = (
    0x80086601, 0x80046601, 0x80087601, 0x801C581F, 0xC020660B, 0x2, 0x40049409, 0x4020940D, 0xC0189436,
    0x8901, 0x8902, 0x8903, 0x8904, 0x8905,
)
# fmt: on
_OF_NETWORKS: Final = (0x8900, 0x8B00)  # interfaces and routes (netdevice(7)), and those without wires
_TYPE_OF_CALL: Final = 0xFF00
_LEASES: Final = (1024, 1026, 1040)  # F_SETLEASE, F_NOTIFY, F_SETDELEG (linux/fcntl.h)
# SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and _EBPF: programs that the kernel compiles into its own memory.
_SOCKET_PROGRAMS: Final = (26, 50, 51, 52)
_SOL_SOCKET: Final = 1
# Clocks of processor time are negative: a pid's complement, and in the last three bits what is counted, and 4 for a thread's
# (linux/posix-timers.h), which must be the caller's own anyway. These are the caller's own, by pid 0.
_OWN_CLOCKS: Final = (0xFFFFFFF8, 0xFFFFFFF9, 0xFFFFFFFA)
_NEGATIVE, _OF_A_THREAD = 0x80000000, 4
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # FALLOC_FL_…: with the second, space is given back
_NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET (linux/sched.h)
_X32: Final = 0x40000000
_SET_ID: Final = 0o6000  # S_ISUID, S_ISGID
_MAKES_A_FILE: Final = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE: only then has open(2) a mode
_MODE_AT_1: Final = ("chmod", "fchmod", "creat", "mkdir", "mknod")
_MODE_AT_2: Final = ("fchmodat", "fchmodat2", "mkdirat", "mknodat")
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_TYPE = 1, 2, 0xF
_IPPROTO_TCP, _IPPROTO_UDP = 6, 17
_PER_LINUX, _ASK_PERSONALITY = 0, 0xFFFFFFFF
_PRIO_PROCESS: Final = 0
_IOPRIO_WHO_PROCESS: Final = 1
_ASK_BY_PID: Final = ("getsid", "sched_getattr", "sched_rr_get_interval")
_ASK_BUT_OF_HIDDEN: Final = ("getpgid", "sched_getscheduler", "sched_getparam")
_SETS_BY_PID: Final = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
_PR_SCHED_CORE: Final = 62  # linux/prctl.h
_SET_MODE_FILTER: Final = 1
_SYS_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_NO_CALL: Final = -1  # ENOSYS

_Rule = tuple[tuple[str, ...], Block]  # names of calls, and how they are judged

_YES: Final = bpf.give(bpf.ALLOW)
_NO: Final = bpf.refuse(errno.EPERM)
_NO_NETWORK: Final = bpf.refuse(errno.EACCES)


def _only(index: int, value: int, *, then: Block = _YES, otherwise: int = _NO) -> Block:
    """On with `then` when the argument has that value, else refused."""
    return (*bpf.load_argument(index), *bpf.if_equal(value, then), *bpf.give(otherwise))


_OWN_PRIORITY: Final = _only(0, _PRIO_PROCESS, then=_only(1, 0))
_OWN_IO_PRIORITY: Final = _only(0, _IOPRIO_WHO_PROCESS, then=_only(1, 0))


class Filter:
    """A program as the kernel takes it, ready before a fork: what a forked child makes or touches is a page that is copied."""

    def __init__(self, program: bytes) -> None:
        self._number = _SYS_SECCOMP.get(os.uname().machine, _NO_CALL)
        self._instructions = ctypes.create_string_buffer(program, len(program))
        # struct sock_fprog: how many, and where they are
        self._program = struct.pack("@HP", len(program) // 8, ctypes.addressof(self._instructions))

    def apply(self) -> None:
        """From here on this process and all that it starts is bound. Needs no_new_privs; `OSError` as the kernel says."""
        linux.syscall(self._number, _SET_MODE_FILTER, 0, self._program)


def filter_for(machine: str, *, network: bool, alone: bool, hidden: tuple[int, ...] = ()) -> bytes:
    """The program for runs on that machine (`os.uname().machine`); `KeyError` for one that is not known.

    `network`: TCP and UDP may be used. `alone`: with mounts and processes of its own, so that no name or pid is another's.
    `hidden`: pids whose process group is not told.
    """
    here = MACHINES[machine]
    told: dict[int, Block] = {}
    for names, block in _rules(network=network, alone=alone, hidden=hidden):
        for name in names:
            if (number := here.number(name)) is not None:
                told.setdefault(number, block)
    starts = {number: told.get(number, _YES) for number in range(LAST_KNOWN + 1)}
    starts[LAST_KNOWN + 1] = bpf.give(bpf.refuse(errno.ENOSYS))
    if here.has_x32:
        starts[_X32] = bpf.give(bpf.KILL)
    return bpf.assemble((bpf.only_on(here.audit), bpf.load_number(), bpf.by_range(starts)))


def apply(program: bytes) -> None:
    """The same for a program that nothing was made ready of."""
    Filter(program).apply()


def _rules(*, network: bool, alone: bool, hidden: tuple[int, ...]) -> tuple[_Rule, ...]:
    """Which calls are judged how; of two rules for a call the first holds, and a call without one is allowed."""
    return (
        (_REFUSED, bpf.give(_NO)),
        (("clone3", "openat2"), bpf.give(bpf.refuse(errno.ENOSYS))),  # flags and mode stand in memory
        *(() if network else ((("bind", "listen", "connect"), bpf.give(_NO_NETWORK)),)),  # a pair is bound to nothing
        *(() if alone else _names_are_closed()),
        (_MODE_AT_1, _mode(1)),
        (_MODE_AT_2, _mode(2)),
        (("open",), _open(flags_at=1)),
        (("openat",), _open(flags_at=2)),
        (("clone",), _clone()),
        (("socket",), _socket(network)),
        (("socketpair",), _socketpair()),
        (("ioctl",), _ioctl(network)),
        (("fcntl",), (*bpf.load_argument(1), *bpf.if_one_of(_LEASES, _NO), *_YES)),
        (("fallocate",), _fallocate()),
        (("prctl",), _prctl(alone)),
        (("setsockopt",), _setsockopt()),
        (_SETS_BY_PID, _only(0, 0)),
        (("setpriority",), _OWN_PRIORITY),
        (("ioprio_set",), _OWN_IO_PRIORITY),
        *(() if alone else _pids_are_closed(hidden)),
        (
            ("personality",),
            (*bpf.load_argument(0), *bpf.if_one_of((_PER_LINUX, _ASK_PERSONALITY), bpf.ALLOW), *bpf.give(_NO)),
        ),
    )


def _clone() -> Block:
    return (*bpf.load_argument(0), *bpf.if_any_bit(_NEW_NAMESPACES, _NO), *bpf.give(bpf.ALLOW))


def _socket(network: bool) -> Block:
    """TCP and UDP alone: by a protocol's number a socket of the same family has the kernel load others (SCTP, UDP-Lite)."""
    if not network:
        return bpf.give(_NO_NETWORK)
    tcp, udp = _of_protocols(_IPPROTO_TCP), _of_protocols(_IPPROTO_UDP)
    kinds = (*bpf.if_equal(_SOCK_STREAM, tcp), *bpf.if_equal(_SOCK_DGRAM, udp), *bpf.give(_NO_NETWORK))
    kind = (*bpf.load_argument(1), *bpf.mask(_SOCK_TYPE), *kinds)
    families = [bpf.if_equal(family, kind) for family in (_AF_INET, _AF_INET6)]
    return (*bpf.load_argument(0), *families[0], *families[1], *bpf.give(_NO_NETWORK))


def _of_protocols(protocol: int) -> Block:
    """That, or the type's own; programs that try another first (MPTCP) take this for a kernel without it."""
    told = bpf.if_one_of((0, protocol), bpf.ALLOW)
    return (*bpf.load_argument(2), *told, *bpf.give(bpf.refuse(errno.EPROTONOSUPPORT)))


def _socketpair() -> Block:
    """Connected for good. One of datagrams could be connected to any path afterwards, /dev/log or a manager's socket."""
    of_streams = (*bpf.load_argument(1), *bpf.mask(_SOCK_TYPE), *bpf.if_equal(_SOCK_STREAM, _YES), *bpf.give(_NO_NETWORK))
    return (*bpf.load_argument(0), *bpf.if_equal(_AF_UNIX, of_streams), *bpf.give(_NO_NETWORK))


def _names_are_closed() -> tuple[_Rule, ...]:
    return (
        (_WATCHES, bpf.give(bpf.refuse(errno.ENOSYS))),
        (_BY_NAME, bpf.give(_NO)),
        (_ATTRIBUTES_BY_NAME, bpf.give(bpf.refuse(errno.ENOTSUP))),  # `cp -a` and `tar` take it as they find it
        (("utimensat",), _by_descriptor()),
    )


def _pids_are_closed(hidden: tuple[int, ...]) -> tuple[_Rule, ...]:
    return (
        (_ASKS_BY_MEMORY, bpf.give(_NO)),
        (_ASK_BUT_OF_HIDDEN, _unless_of(hidden)),
        (_ASK_BY_PID, _only(0, 0)),
        (("sched_getaffinity",), _only(0, 0, otherwise=bpf.refuse(errno.ENOSYS))),
        (_BY_CLOCK, _clock()),
        (("getpriority",), _OWN_PRIORITY),
        (("ioprio_get",), _OWN_IO_PRIORITY),
    )


def _unless_of(hidden: tuple[int, ...]) -> Block:
    return (*bpf.load_argument(0), *bpf.if_one_of(hidden, bpf.refuse(errno.ESRCH)), *_YES)


def _ioctl(network: bool) -> Block:
    """What is no terminal's, and not among the few of files, fails as what is behind the descriptor does not know it."""
    types = (_OF_TERMINALS, *(_OF_NETWORKS if network else ()))
    of_types = (*bpf.mask(_TYPE_OF_CALL), *bpf.if_one_of(types, bpf.ALLOW))
    named = (*bpf.if_one_of(_TERMINAL_CALLS, _NO), *bpf.if_one_of(_FILE_CALLS, bpf.ALLOW))
    return (*bpf.load_argument(1), *named, *of_types, *bpf.give(bpf.refuse(errno.ENOTTY)))


def _prctl(alone: bool) -> Block:
    """Whatever a process asks of itself but a core to itself, and, where it is to be measured, to be hidden."""
    hides = (*bpf.load_argument(1), *bpf.if_equal(0, bpf.give(_NO)), *_YES)
    hidden = () if alone else bpf.if_equal(linux.PR_SET_DUMPABLE, hides)
    return (*bpf.load_argument(0), *bpf.if_equal(_PR_SCHED_CORE, bpf.give(_NO)), *hidden, *_YES)


def _fallocate() -> Block:
    """Past the size of a file nothing is reserved: RLIMIT_FSIZE looks at sizes alone."""
    refused = bpf.give(bpf.refuse(errno.EOPNOTSUPP))
    return (
        *bpf.load_argument(1),
        *bpf.unless_any_bit(_KEEP_SIZE, _YES),
        *bpf.if_any_bit(_PUNCH_HOLE, bpf.ALLOW),
        *refused,
    )


def _setsockopt() -> Block:
    of_the_socket = (*bpf.load_argument(2), *bpf.if_one_of(_SOCKET_PROGRAMS, _NO), *_YES)
    return (*bpf.load_argument(1), *bpf.if_equal(_SOL_SOCKET, of_the_socket), *_YES)


def _clock() -> Block:
    """Any but another process's, which is told as the kernel tells that there is no such process."""
    return (
        *bpf.load_argument(0),
        *bpf.unless_any_bit(_NEGATIVE, _YES),
        *bpf.if_one_of(_OWN_CLOCKS, bpf.ALLOW),
        *bpf.if_any_bit(_OF_A_THREAD, bpf.ALLOW),
        *bpf.give(bpf.refuse(errno.EINVAL)),
    )


def _mode(index: int) -> Block:
    return (*bpf.load_argument(index), *bpf.if_any_bit(_SET_ID, _NO), *_YES)


def _open(*, flags_at: int) -> Block:
    return (*bpf.load_argument(flags_at), *bpf.unless_any_bit(_MAKES_A_FILE, _YES), *_mode(flags_at + 1))


def _by_descriptor() -> Block:
    """`futimens` is utimensat without a name: both halves of the pointer are zero."""
    is_null = (*bpf.load_argument(1, high=True), *bpf.if_equal(0, bpf.give(bpf.ALLOW)), *bpf.give(_NO))
    return (*bpf.load_argument(1), *bpf.if_equal(0, is_null), *bpf.give(_NO))
