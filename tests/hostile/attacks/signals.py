"""Can a task signal, slow or limit somebody else's process?

Each way uses a signal of its own, which tells the victim by whom it was reached. What is sent is ignored by default, or goes
to a victim that catches it: a run without isolation hurts nobody.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable

from tests.hostile.attacks.craft import Targets, attack, bomb, first, syscall, write

SIGNALS = {
    "kill_victim": signal.SIGUSR1,
    "pidfd_to_victim": signal.SIGUSR2,
    "queue_to_victim": signal.SIGRTMIN + 1,
    "queue_to_thread_of_victim": signal.SIGRTMIN + 2,
    "tkill_victim": signal.SIGRTMIN + 3,
    "owner_of_a_pipe": signal.SIGRTMIN + 4,
    "owner_of_a_pipe_by_thread": signal.SIGRTMIN + 5,
    "group_of_victim": signal.SIGRTMIN + 6,
    "owner_of_a_pipe_by_group": signal.SIGRTMIN + 7,
    "tgkill_victim": signal.SIGRTMIN + 8,
    "owner_of_a_terminal": signal.SIGRTMIN + 9,
    "owner_of_a_socket_by_urgent_data": signal.SIGURG,
    "everybody": signal.SIGWINCH,
}
F_SETOWN_EX, F_SETSIG = 15, 10


def sent(result: int) -> str | None:
    return "sent" if result == 0 else None


def killed(pid: int, number: signal.Signals) -> str:
    os.kill(pid, number)
    return "sent"


@attack
def kill_victim(t: Targets) -> str | None:
    os.kill(t.victim, SIGNALS["kill_victim"])
    return "sent"


@attack
def kill_daemon(t: Targets) -> str | None:
    os.kill(t.daemon, signal.SIGURG)
    return "sent"


@attack
def kill_spawner(t: Targets) -> str | None:
    os.kill(t.spawner, signal.SIGURG)
    return "sent"


@attack
def kill_other_task(t: Targets) -> str | None:
    os.kill(t.other_task, signal.SIGURG)
    return "sent"


@attack
def continue_daemon(t: Targets) -> str | None:
    """SIGCONT has a rule of its own: within a session anybody may send it."""
    os.kill(t.daemon, signal.SIGCONT)
    return "sent"


@attack
def probe_daemon(t: Targets) -> str | None:
    os.kill(t.daemon, 0)
    return "it is there"


@attack
def kill_parent(t: Targets) -> str | None:
    """The runner's own parent: the spawner, or what stands between."""
    return killed(t.parent, signal.SIGURG) if t.parent > 1 else None


@attack
def pidfd_to_victim(t: Targets) -> str | None:
    fd = syscall("pidfd_open", t.victim, 0)
    return sent(syscall("pidfd_send_signal", fd, SIGNALS["pidfd_to_victim"], 0, 0))


@attack
def pidfd_to_daemon(t: Targets) -> str | None:
    fd = syscall("pidfd_open", t.daemon, 0)
    return sent(syscall("pidfd_send_signal", fd, signal.SIGURG, 0, 0))


@attack
def queue_to_victim(t: Targets) -> str | None:
    number = SIGNALS["queue_to_victim"]
    return sent(syscall("rt_sigqueueinfo", t.victim, number, siginfo(number)))


@attack
def queue_to_thread_of_victim(t: Targets) -> str | None:
    number = SIGNALS["queue_to_thread_of_victim"]
    return sent(syscall("rt_tgsigqueueinfo", t.victim, t.victim, number, siginfo(number)))


def siginfo(number: int) -> bytes:
    return struct.pack("=iiiiii", number, 0, -1, 0, os.getpid(), os.getuid()).ljust(128, b"\0")  # SI_QUEUE


@attack
def tkill_victim(t: Targets) -> str | None:
    return sent(syscall("tkill", t.victim, SIGNALS["tkill_victim"]))


@attack
def tgkill_victim(t: Targets) -> str | None:
    return sent(syscall("tgkill", t.victim, t.victim, SIGNALS["tgkill_victim"]))


@attack
def group_of_victim(t: Targets) -> str | None:
    os.killpg(t.victim_group, SIGNALS["group_of_victim"])
    return "sent"


@attack
def everybody(t: Targets) -> str | None:
    """kill(-1): judged outside, for the kernel says yes when it reached anybody, the task's own children too."""
    os.kill(-1, SIGNALS["everybody"])
    return None


@attack
def owner_of_a_pipe(t: Targets) -> None:
    """SIGIO by F_SETOWN; judged outside, for the kernel sends it later and says nothing."""
    signal_by_owner(SIGNALS["owner_of_a_pipe"], lambda fd: fcntl.fcntl(fd, fcntl.F_SETOWN, t.victim))


@attack
def owner_of_a_pipe_by_group(t: Targets) -> None:
    signal_by_owner(SIGNALS["owner_of_a_pipe_by_group"], lambda fd: fcntl.fcntl(fd, fcntl.F_SETOWN, -t.victim_group))


@attack
def owner_of_a_pipe_by_thread(t: Targets) -> None:
    def own(fd: int) -> object:
        return fcntl.fcntl(fd, F_SETOWN_EX, struct.pack("=ii", 0, t.victim))  # F_OWNER_TID

    signal_by_owner(SIGNALS["owner_of_a_pipe_by_thread"], own)


@attack
def owner_of_a_terminal(t: Targets) -> None:
    """The same by its own terminal, which every task has."""
    fcntl.fcntl(0, F_SETSIG, SIGNALS["owner_of_a_terminal"])
    fcntl.fcntl(0, fcntl.F_SETOWN, t.victim)
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    try:
        os.write(0, b"\n")  # room to write, and an echo, are both worth a signal
        time.sleep(0.05)
    finally:
        fcntl.fcntl(0, fcntl.F_SETFL, flags)
        fcntl.fcntl(0, fcntl.F_SETOWN, 0)


@attack
def owner_of_a_socket_by_urgent_data(t: Targets) -> str | None:
    """A byte out of band is a SIGURG for whoever owns the other end (Linux 5.15: of a Unix socket too)."""
    ours, theirs = socket.socketpair()
    fcntl.fcntl(ours, fcntl.F_SETOWN, t.victim)
    theirs.send(b"!", socket.MSG_OOB)
    return None


@attack
def timer_for_a_thread_of_victim(t: Targets) -> str | None:
    """timer_create(2), SIGEV_THREAD_ID: the thread has to be one's own."""
    event = struct.pack("=QiiI", 0, signal.SIGURG, 4, t.victim).ljust(64, b"\0")
    syscall("timer_create", 1, event, ctypes.byref(ctypes.c_int()))
    return "it will be told"


def signal_by_owner(number: int, own: Callable[[int], object]) -> None:
    ours, theirs = os.pipe()
    fcntl.fcntl(ours, F_SETSIG, number)
    own(ours)
    fcntl.fcntl(ours, fcntl.F_SETFL, fcntl.fcntl(ours, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(theirs, b"x")


@attack
def renice_everybody_of_the_user(t: Targets) -> str | None:
    """PRIO_USER with 0 is every process of one's own user, and needs no pid; to what they have, for it cannot be undone."""
    os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))
    return "could have made them slower"


@attack
def renice_victim(t: Targets) -> str | None:
    os.setpriority(os.PRIO_PROCESS, t.victim, 7)
    return "slower"


@attack
def renice_group_of_victim(t: Targets) -> str | None:
    os.setpriority(os.PRIO_PGRP, t.victim_group, 9)
    return "slower"


@attack
def io_priority_of_victim(t: Targets) -> str | None:
    syscall("ioprio_set", 1, t.victim, 3 << 13)  # IOPRIO_WHO_PROCESS, idle
    return "slower"


@attack
def io_priority_of_everybody_of_the_user(t: Targets) -> str | None:
    syscall("ioprio_set", 3, os.getuid(), (2 << 13) | 4)  # IOPRIO_WHO_USER, best effort, what everybody has
    return "could have made them slower"


@attack
def first_to_go_when_memory_runs_out(t: Targets) -> str | None:
    """Written back as it was: raising it cannot be undone."""
    path = f"/proc/{t.victim}/oom_score_adj"
    with open(path) as file:
        return write(path, file.read(), os.O_WRONLY)


@attack
def slower_by_its_session(t: Targets) -> str | None:
    """The scheduler's groups of sessions have a niceness, too."""
    return write(f"/proc/{t.victim}/autogroup", "0", os.O_WRONLY)


@attack
def limit_victim(t: Targets) -> str | None:
    resource.prlimit(t.victim, resource.RLIMIT_CPU, (86_000, 90_000))
    return "limited"


@attack
def limits_of_victim(t: Targets) -> str | None:
    return f"{resource.prlimit(t.victim, resource.RLIMIT_NOFILE)}"


@attack
def limit_daemon(t: Targets) -> str | None:
    soft, hard = resource.prlimit(t.daemon, resource.RLIMIT_NOFILE)
    resource.prlimit(t.daemon, resource.RLIMIT_NOFILE, (soft, hard))
    return "could have"


@attack
def pin_victim(t: Targets) -> str | None:
    os.sched_setaffinity(t.victim, {min(os.sched_getaffinity(0))})
    return "pinned"


@attack
def schedule_victim(t: Targets) -> str | None:
    os.sched_setscheduler(t.victim, os.SCHED_BATCH, os.sched_param(0))
    return "batch"


@attack
def schedule_victim_by_attributes(t: Targets) -> str | None:
    attributes = struct.pack("=IIQiIQQQ", 48, 3, 0, 5, 0, 0, 0, 0)  # SCHED_BATCH, nice 5
    syscall("sched_setattr", t.victim, attributes, 0)
    return "batch"


@attack
def migrate_victim(t: Targets) -> str | None:
    mask = (ctypes.c_ulong * 1)(1)
    syscall("migrate_pages", t.victim, 64, mask, mask)
    return "moved its memory"


@attack
def move_pages_of_victim(t: Targets) -> str | None:
    page = (ctypes.c_void_p * 1)(t.victim_address & ~4095)
    status = (ctypes.c_int * 1)()
    syscall("move_pages", t.victim, 1, page, 0, status, 2)
    return f"looked at its memory: {status[0]}"


@attack
def robust_list_of_victim(t: Targets) -> str | None:
    head, size = ctypes.c_void_p(), ctypes.c_size_t()
    syscall("get_robust_list", t.victim, ctypes.byref(head), ctypes.byref(size))
    return f"{head.value}"


@attack
def realtime_for_itself(t: Targets) -> str | None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    return "nobody else runs now"


@bomb
def kill_9_the_daemon(t: Targets) -> str | None:
    return first(
        [
            lambda: killed(t.daemon, signal.SIGKILL),
            lambda: killed(t.spawner, signal.SIGKILL),
            lambda: killed(t.daemon, signal.SIGSTOP),
            lambda: sent(syscall("pidfd_send_signal", syscall("pidfd_open", t.daemon, 0), signal.SIGKILL, 0, 0)),
        ]
    )


@bomb
def kill_9_everybody(t: Targets) -> str | None:
    """In a child of its own, for it may reach itself. Judged outside: the daemon and its neighbours live."""
    if os.fork() == 0:
        os.kill(-1, signal.SIGTERM)
        os._exit(0)
    return None
