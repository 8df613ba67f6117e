"""What can a task learn of other processes, and does anything of it live on?"""

from __future__ import annotations

import ctypes
import os
import signal
import time

from tests.hostile.attacks.craft import Targets, attack, read, syscall


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
