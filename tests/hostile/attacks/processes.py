"""What can a task learn of other processes, and does anything of it live on?"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import time
from functools import partial

from tests.hostile.attacks.craft import Targets, absent, attack, first, read, syscall


@attack
def list_processes(t: Targets) -> str | None:
    """Whatever is no child of the task's."""
    found = [name for name in os.listdir("/proc") if name.isdigit()]
    strangers = []
    for name in found:
        try:
            if b"sandboxd.runner.spawner" in read(f"/proc/{name}/cmdline") or int(name) == t.victim:
                strangers.append(name)
        except OSError:
            continue
    return f"saw {strangers}" if strangers else None


@attack
def session_of_daemon(t: Targets) -> str | None:
    return f"{os.getsid(t.daemon)}"


@attack
def group_of_daemon(t: Targets) -> str | None:
    return f"{os.getpgid(t.daemon)}"


@attack
def group_of_spawner(t: Targets) -> str | None:
    return f"{os.getpgid(t.spawner)}"


@attack
def group_of_parent(t: Targets) -> str | None:
    """The spawner again, by what the task knows without luck; inside namespaces nobody."""
    return f"{os.getpgid(t.parent)}" if t.parent > 1 else None


@attack
def group_of_other_task(t: Targets) -> str | None:
    return f"{os.getpgid(t.other_task)}"


@attack
def capabilities_of_daemon(t: Targets) -> str | None:
    """capget(2) of another pid: the filter cannot see which one."""
    sets = ctypes.create_string_buffer(24)
    syscall("capget", struct.pack("=Ii", 0x20080522, t.daemon), sets)
    return sets.raw.hex()


@attack
def facts_of_victim_by_its_pidfd(t: Targets) -> str | None:
    """PIDFD_GET_INFO (Linux 6.13): user, parent and cgroup of any process, without a question about rights."""
    return first([partial(facts_of, t.victim, size) for size in (64, 72, 80)])


@attack
def facts_of_daemon_by_its_pidfd(t: Targets) -> str | None:
    return first([partial(facts_of, t.daemon, size) for size in (64, 72, 80)])


def facts_of(pid: int, size: int) -> str:
    told = bytearray(struct.pack("=Q", 0xFFFF).ljust(size, b"\0"))
    fcntl.ioctl(syscall("pidfd_open", pid, 0), 3 << 30 | size << 16 | 0xFF << 8 | 11, told)
    return f"user {told[28:32].hex()}, parent {told[24:28].hex()}"


@attack
def priority_of_daemon(t: Targets) -> str | None:
    return f"{os.getpriority(os.PRIO_PROCESS, t.daemon)}"


@attack
def processors_of_daemon(t: Targets) -> str | None:
    return f"{os.sched_getaffinity(t.daemon)}"


@attack
def scheduler_of_daemon(t: Targets) -> str | None:
    return f"{os.sched_getscheduler(t.daemon)}"


@attack
def scheduling_of_daemon(t: Targets) -> str | None:
    attributes = ctypes.create_string_buffer(56)
    syscall("sched_getattr", t.daemon, attributes, 56, 0)
    return f"{attributes.raw[4:8]!r}"


@attack
def io_priority_of_daemon(t: Targets) -> str | None:
    return f"{syscall('ioprio_get', 1, t.daemon)}"


@attack
def processor_time_of_daemon(t: Targets) -> str | None:
    """clock_gettime(2): every process has a clock of the time that it ran, and nobody is asked who may read it."""
    return ran_for(t.daemon)


@attack
def processor_time_of_other_task(t: Targets) -> str | None:
    return ran_for(t.other_task)


def ran_for(pid: int) -> str:
    told = ctypes.create_string_buffer(16)
    syscall("clock_gettime", clock_of(pid), told)
    return f"{struct.unpack('=qq', told.raw)}"


def clock_of(pid: int) -> int:
    return (~pid << 3) | 2  # CPUCLOCK_SCHED


@attack
def alarm_by_the_daemons_time(t: Targets) -> str | None:
    """A timer that goes off when somebody else has worked so much."""
    event = struct.pack("=Qii", 0, signal.SIGURG, 0).ljust(64, b"\0")
    syscall("timer_create", clock_of(t.daemon), event, ctypes.byref(ctypes.c_int()))
    return "will know"


@attack
def locks_of_the_host(t: Targets) -> str | None:
    """Who holds which file."""
    with open("/proc/locks") as file:
        return "saw the daemon's" if any(str(t.daemon) in line.split() for line in file) else None


@attack
def shared_memory_of_the_host(t: Targets) -> str | None:
    with open("/proc/sysvipc/shm") as file:
        return "saw the victim's" if any(line.split()[0] == str(t.shm_key) for line in file) else None


@attack
def keys_of_the_user(t: Targets) -> str | None:
    """keyrings(7): whatever keys the user has, by their names."""
    with open("/proc/keys") as file:
        return "saw the victim's" if t.key_name in file.read() else None


@attack
def namespaces_above(t: Targets) -> str | None:
    """ioctl_ns(2), NS_GET_PARENT: from one's own namespaces to those around them."""
    return first([partial(above, name) for name in ("pid", "user")])


def above(name: str) -> str:
    return f"has {fcntl.ioctl(os.open(f'/proc/self/ns/{name}', os.O_RDONLY), 0xB702)}"


@attack
def mounts_of_the_host(t: Targets) -> str | None:
    """Where the daemon's folders are, by the table of mounts."""
    with open("/proc/self/mountinfo") as file:
        return "saw them" if t.state in file.read() else None


@attack
def child_in_the_daemons_cgroup(t: Targets) -> str | None:
    """clone3(2), CLONE_INTO_CGROUP: born where no end of the task's own reaches."""
    if not t.daemon_cgroup:
        raise absent("no cgroup")
    folder = os.open(t.daemon_cgroup, os.O_PATH | os.O_DIRECTORY)
    arguments = struct.pack("=11Q", 1 << 33, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, folder)
    child = syscall("clone3", ctypes.create_string_buffer(arguments), len(arguments))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "born there"


@attack
def join_group_of_victim(t: Targets) -> str | None:
    os.setpgid(0, t.victim_group)
    return "joined it"


def leave_a_tree(marker: str) -> None:
    """A tree that ignores what it can, in sessions of its own, one branch of which forks anew every millisecond."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.environ["HOSTILE_TREE"] = marker
    for run in (_sleep, _nest, _churn):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                run()
            os._exit(0)


def _sleep() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    time.sleep(120)


def _nest() -> None:
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
    time.sleep(120)


def _churn() -> None:
    ends_at = time.monotonic() + 120
    while time.monotonic() < ends_at:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.001)
