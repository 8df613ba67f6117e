"""Does the filter's program decide on every call as the rules say, on both machines?

The rules stand here once more, as plain conditions by name; the program is run by a machine of the tests' own.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from typing import Final

import attrs
import pytest

from sandboxd.runner.isolation import bpf, seccomp
from sandboxd.runner.isolation.calls import LAST_KNOWN, MACHINES
from tests.support.bpf_machine import ARCHITECTURE_AT, ARGUMENTS_AT, NUMBER_AT, Machine


def words(text: str) -> list[str]:
    return text.split()


ALLOW, KILL = 0x7FFF0000, 0x80000000
FOREIGN: Final = (0x40000003, 0xC000003E, 0xC00000B7, 0x40000028, 0)  # i386, x86_64, aarch64, arm, none
X32: Final = 0x40000000
HIDDEN: Final = (17, 4242)
NEVER: Final = words("""
unshare setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick mount_setattr
statmount listmount ptrace process_vm_readv process_vm_writev pidfd_getfd process_madvise process_mrelease kcmp migrate_pages
move_pages add_key request_key keyctl shmget shmat shmctl shmdt semget semctl semop semtimedop msgget msgctl msgsnd msgrcv
mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr io_uring_setup io_uring_enter io_uring_register
open_by_handle_at bpf perf_event_open userfaultfd fanotify_init fanotify_mark lookup_dcookie memfd_secret modify_ldt iopl ioperm
uselib io_setup quotactl quotactl_fd swapon swapoff reboot kexec_load kexec_file_load init_module finit_module delete_module
create_module acct settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname syslog vhangup nfsservctl
""")
BY_NAME: Final = words("chmod fchmodat fchmodat2 chown lchown fchownat utime utimes futimesat file_setattr")
ATTRIBUTES: Final = words("""
setxattr lsetxattr setxattrat removexattr lremovexattr removexattrat getxattr lgetxattr getxattrat listxattr llistxattr
listxattrat file_getattr
""")
JUDGED: Final = words("""
clone3 openat2 bind listen connect fchmod creat mkdir mknod mkdirat mknodat open openat clone socket socketpair ioctl fcntl
fallocate prctl setsockopt prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr setpriority ioprio_set
personality inotify_init inotify_init1 inotify_add_watch utimensat capget name_to_handle_at getpgid sched_getscheduler
sched_getparam getsid sched_getattr sched_rr_get_interval sched_getaffinity clock_gettime clock_getres clock_nanosleep
timer_create getpriority ioprio_get
""")
# fmt: off
FILE_IOCTLS: Final = (
    0x80086601, 0x80046601, 0x80087601, 0x801C581F, 0xC020660B, 0x2, 0x40049409, 0x4020940D, 0xC0189436,
    0x8901, 0x8902, 0x8903, 0x8904, 0x8905,
)
# Numbers that mean something to some call, and their neighbours.
TELLING: Final = {
    number + more & 0xFFFFFFFF
    for number in (
        0, 4, 8, 10, 17, 26, 50, 62, 132, 136, 262, 1024, 1026, 1040, 4242, 0o755, 0o1777, 0o2000, 0o4000, 0o100, 0o20000000,
        0x01000000, 0x02000000, 0x7E020000, 0x80000000, 0xFFFFFFF8, 0xFFFFFFFB, 0x80000, 0x53FF, 0x5400, 0x5412, 0x541C,
        0x541D, 0x5423, 0x540C, 0x54FF, 0x8906, 0x8910, 0x89FF, 0x8B01, 0x8BFF, *FILE_IOCTLS,
    )
    for more in (-1, 0, 1)
}
# fmt: on
Rule = Callable[[list[int]], int]


@attrs.frozen
class Kind:
    """Which program."""

    machine: str
    network: bool
    alone: bool

    @property
    def program(self) -> Machine:
        return Machine(seccomp.filter_for(self.machine, network=self.network, alone=self.alone, hidden=HIDDEN))

    def judge(self, name: str, args: list[int]) -> int:
        """What the rules say of that call with these arguments (64 bits each)."""
        if name in NEVER:
            return refused(errno.EPERM)
        if name in {"clone3", "openat2"}:
            return refused(errno.ENOSYS)
        if name in {"bind", "listen", "connect"}:
            return ALLOW if self.network else refused(errno.EACCES)
        found = None if self.alone else where_others_are_seen(name, args)
        return everywhere(name, [arg & 0xFFFFFFFF for arg in args], self) if found is None else found


def refused(number: int) -> int:
    return 0x50000 | number


def unless(condition: bool, number: int = errno.EPERM) -> int:
    return refused(number) if condition else ALLOW


def where_others_are_seen(name: str, wide: list[int]) -> int | None:
    """At `standard`; None: nothing else than everywhere."""
    first, second = wide[0] & 0xFFFFFFFF, wide[1] & 0xFFFFFFFF
    if name.startswith("inotify_"):
        return refused(errno.ENOSYS)
    if name in BY_NAME or name in {"capget", "name_to_handle_at"}:
        return refused(errno.EPERM)
    if name in ATTRIBUTES:
        return refused(errno.ENOTSUP)
    if name == "utimensat":
        return unless(wide[1] != 0)
    if name in {"getpgid", "sched_getscheduler", "sched_getparam"}:
        return unless(first in HIDDEN, errno.ESRCH)
    if name in {"getsid", "sched_getattr", "sched_rr_get_interval"}:
        return unless(first != 0)
    if name == "sched_getaffinity":
        return unless(first != 0, errno.ENOSYS)
    if name in {"clock_gettime", "clock_getres", "clock_nanosleep", "timer_create"}:
        of_another = first >= 0x80000000 and first not in {0xFFFFFFF8, 0xFFFFFFF9, 0xFFFFFFFA} and not first & 4
        return unless(of_another, errno.EINVAL)
    if name == "getpriority":
        return unless((first, second) != (0, 0))
    if name == "ioprio_get":
        return unless((first, second) != (1, 0))
    if name == "prctl" and first == 4:  # PR_SET_DUMPABLE
        return unless(second == 0)
    return None


def everywhere(name: str, args: list[int], kind: Kind) -> int:
    first, second, third = args[:3]
    set_id = 0o6000
    rules: dict[str, Callable[[], int]] = {
        **dict.fromkeys(("chmod", "fchmod", "creat", "mkdir", "mknod"), lambda: unless(bool(second & set_id))),
        **dict.fromkeys(("fchmodat", "fchmodat2", "mkdirat", "mknodat"), lambda: unless(bool(third & set_id))),
        "open": lambda: unless(bool(second & 0o20000100 and third & set_id)),
        "openat": lambda: unless(bool(third & 0o20000100 and args[3] & set_id)),
        "clone": lambda: unless(bool(first & 0x7E020000)),
        "socket": lambda: a_socket(first, second, third) if kind.network else refused(errno.EACCES),
        "socketpair": lambda: unless((first, second & 0xF) != (1, 1), errno.EACCES),
        "ioctl": lambda: an_ioctl(second, kind),
        "fcntl": lambda: unless(second in {1024, 1026, 1040}),
        "fallocate": lambda: unless(second & 3 == 1, errno.EOPNOTSUPP),
        "prctl": lambda: unless(first == 62),
        "setsockopt": lambda: unless(second == 1 and third in {26, 50, 51, 52}),
        **dict.fromkeys(
            ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"),
            lambda: unless(first != 0),
        ),
        "setpriority": lambda: unless((first, second) != (0, 0)),
        "ioprio_set": lambda: unless((first, second) != (1, 0)),
        "personality": lambda: unless(first not in {0, 0xFFFFFFFF}),
    }
    return rules.get(name, lambda: ALLOW)()


def a_socket(family: int, kind: int, protocol: int) -> int:
    if family not in {2, 10} or kind & 0xF not in {1, 2}:
        return refused(errno.EACCES)
    return unless(protocol not in {0, 6 if kind & 0xF == 1 else 17}, errno.EPROTONOSUPPORT)


def an_ioctl(request: int, kind: Kind) -> int:
    if request in {0x5412, 0x541C, 0x541D, 0x5423, 0x540C}:
        return refused(errno.EPERM)
    types = {0x5400, 0x8900, 0x8B00} if kind.network else {0x5400}
    return unless(request not in FILE_IOCTLS and request & 0xFF00 not in types, errno.ENOTTY)


def names_on(machine: str) -> dict[int, str]:
    numbers = ((MACHINES[machine].number(name), name) for name in (*NEVER, *BY_NAME, *ATTRIBUTES, *JUDGED))
    return {number: name for number, name in numbers if number is not None}


def arguments(words: dict[int, int], rest: int) -> list[int]:
    """Six of 64 bits, from the halves that the program looked at; `rest` for all others, of which it knows nothing."""
    halves = [words.get(ARGUMENTS_AT + 4 * index, rest) for index in range(12)]
    return [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]


KINDS: Final = [Kind(*one) for one in itertools.product(("x86_64", "aarch64"), (False, True), (False, True))]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_call_is_judged_as_the_rules_say(kind):
    program, names, audit = kind.program, names_on(kind.machine), MACHINES[kind.machine].audit
    values = {ARGUMENTS_AT + 4 * index: TELLING for index in range(12)}

    wrong = [
        (number, names.get(number), words, hex(found.verdict))
        for number in range(LAST_KNOWN + 1)
        for words, found in program.paths({NUMBER_AT: number, ARCHITECTURE_AT: audit}, values)
        for rest in (0, 0xFFFFFFFF)
        if found.verdict != kind.judge(names.get(number, ""), arguments(words, rest))
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_newer_than_the_list_does_not_exist(kind):
    newer = (LAST_KNOWN + 1, LAST_KNOWN + 2, 512, 547, 0x3FFFFFFF, X32, X32 + 1, X32 + 520, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
    program, here = kind.program, MACHINES[kind.machine]

    found = {number: program.run({NUMBER_AT: number, ARCHITECTURE_AT: here.audit}).verdict for number in newer}
    assert found == {number: KILL if here.has_x32 and number >= X32 else refused(errno.ENOSYS) for number in newer}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_foreign_table_kills(kind):
    program = kind.program
    foreign = [architecture for architecture in FOREIGN if architecture != MACHINES[kind.machine].audit]

    for architecture, number in itertools.product(foreign, range(LAST_KNOWN + 2)):
        assert program.run({NUMBER_AT: number, ARCHITECTURE_AT: architecture}).verdict == KILL


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_call_waits_for_a_long_list(kind):
    """The kernel runs through the program for each number when it takes it, and for each call that has an argument judged."""
    program, audit = kind.program, MACHINES[kind.machine].audit
    values = {ARGUMENTS_AT + 4 * index: {0} for index in range(12)}

    longest = max(
        found.steps
        for number in range(LAST_KNOWN + 2)
        for _, found in program.paths({NUMBER_AT: number, ARCHITECTURE_AT: audit}, values)
    )
    assert longest < 50  # a list took 166


def test_a_range_is_reached_however_far_away_it_is():
    """A conditional jump reaches 255 instructions."""
    ranges = 600
    starts = {
        number: (*bpf.load_argument(0), *bpf.if_equal(number, bpf.give(bpf.ALLOW)), *bpf.give(bpf.refuse(number % 7 + 1)))
        for number in range(ranges)
    }
    program = Machine(bpf.assemble([bpf.load_number(), bpf.by_range(starts)]))

    for number in range(ranges):
        assert program.run({NUMBER_AT: number, ARGUMENTS_AT: number}).verdict == bpf.ALLOW
        assert program.run({NUMBER_AT: number, ARGUMENTS_AT: number + 1}).verdict == bpf.refuse(number % 7 + 1)
    assert program.run({NUMBER_AT: 0xFFFFFFFF, ARGUMENTS_AT: ranges - 1}).verdict == bpf.ALLOW
