"""Which limits does the kernel keep for a run?

Each process: no core file, no real-time and no raised priority, open files, the size of a file, processor time (for one that
outlives everything that should have ended it). The whole run: memory, processes and share of processors, by the cgroup
controllers of these names, where the operator's delegation has them. Without the memory controller `memory` becomes
RLIMIT_DATA, which bounds each process and not their sum. Without the pids controller `processes` becomes RLIMIT_NPROC. Inside
namespaces that counts this run alone. Elsewhere it counts all of the user's processes, so at `standard` what is there already
is added, and at `none` it is not kept: one run's children would stop another run's. What is kept otherwise is said with every
run (`notes`).
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sandboxd.policy.model import Isolation, Limits

HOUSEKEEPING: Final = 3  # processes that a run's namespaces have before it: bubblewrap, their first process, `cat`
OOM_SCORE: Final = 500  # as if it had half of the machine's memory besides
# Less than any core file has. Of a host whose core_pattern is a program, 0 would keep none of its runs from having that program
# started, as root, by crashing; 1 does (fs/coredump.c takes it for that program's own crash).
_NO_CORE: Final = 1
_CPU_SLACK_S: Final = 60
_RLIMIT_NICE, _RLIMIT_RTPRIO = 13, 14  # asm-generic/resource.h; Python names neither
# A user's descriptors that are on their way through sockets are counted together, and nobody whose own limit is below that
# count may send one (unix(7), ETOOMANYREFS). The spawner sends a terminal with each run, so what its runs can have on their
# way must stay below its limit: their limit, and a message more, 253 at most (SCM_MAX_FD), for each that sends at that moment.
_MESSAGE_FDS: Final = 253
_PERIOD_US: Final = 100_000  # cpu.max; the kernel's default


def rlimits(limits: Limits, controllers: Collection[str], level: Isolation) -> tuple[tuple[int, int], ...]:
    """Pairs of resource and value, soft and hard the same; never above the hard limit that is in force already."""
    processors = len(os.sched_getaffinity(0))
    wanted = [
        (resource.RLIMIT_CORE, _NO_CORE),
        (_RLIMIT_NICE, 0),
        (_RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_NOFILE, min(limits.open_files, _open_files_max())),
        (resource.RLIMIT_CPU, limits.timeout_s * processors + _CPU_SLACK_S),
    ]
    if limits.file_bytes is not None:
        wanted.append((resource.RLIMIT_FSIZE, limits.file_bytes))
    if limits.memory_bytes is not None and "memory" not in controllers:
        wanted.append((resource.RLIMIT_DATA, limits.memory_bytes))
    if limits.processes is not None and "pids" not in controllers and level != "none":
        others = HOUSEKEEPING if level == "strict" else _threads_of(os.getuid())
        wanted.append((resource.RLIMIT_NPROC, limits.processes + others))
    return tuple((kind, _at_most(value, resource.getrlimit(kind)[1])) for kind, value in wanted)


def take_all_files() -> None:
    """Have this process, the spawner, open as many files as it may: more than any of its runs."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open_files_max() -> int:
    """The most that a run may have, below what this process has."""
    own = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(own - _MESSAGE_FDS * (len(os.sched_getaffinity(0)) + 1), own // 2)


def prefer_to_daemon(pid: int) -> None:
    """Have the kernel, when memory runs out, end that run before the daemon and all others (proc_pid_oom_score_adj(5)).

    Raising needs no rights, and what it starts inherits it. Before exec the child could not: this process is not dumpable.
    """
    with contextlib.suppress(OSError):  # it has ended
        Path(f"/proc/{pid}/oom_score_adj").write_text(f"{OOM_SCORE}")


def cgroup_files(limits: Limits, controllers: Collection[str], level: Isolation) -> dict[str, str]:
    """What to write into which file of the run's cgroup."""
    files: dict[str, str] = {}
    if limits.memory_bytes is not None and "memory" in controllers:
        files |= {"memory.max": str(limits.memory_bytes), "memory.swap.max": "0", "memory.oom.group": "1"}
    if limits.processes is not None and "pids" in controllers:
        files["pids.max"] = str(limits.processes + (HOUSEKEEPING if level == "strict" else 0))
    if limits.cpu_percent is not None and "cpu" in controllers:
        files["cpu.max"] = f"{limits.cpu_percent * _PERIOD_US // 100} {_PERIOD_US}"
    return files


def notes(limits: Limits, controllers: Collection[str], level: Isolation) -> tuple[str, ...]:
    """What the policy limits and this host cannot keep."""
    said = []
    if limits.open_files > (most := _open_files_max()):
        said.append(f"the policy's `open-files` is {most}: this host gives the daemon no more to hand on")
    if limits.memory_bytes is not None and "memory" not in controllers:
        said.append("the policy's `memory` holds for each process and not for their sum: no memory controller is delegated")
    if limits.processes is not None and "pids" not in controllers:
        match level:
            case "none":
                said.append("the policy's `processes` is not kept: no pids controller is delegated")
            case "standard":
                said.append(
                    "the policy's `processes` counts all that the daemon's user starts: no pids controller is delegated"
                )
            case "strict":  # its user namespace counts for itself
                pass
    if limits.cpu_percent is not None and "cpu" not in controllers:
        said.append("the policy's `cpu-percent` is not kept: no cpu controller is delegated")
    return tuple(said)


def _threads_of(uid: int) -> int:
    """How many threads that user has, which is what RLIMIT_NPROC counts.

    The /proc of a process that is not dumpable is root's; the two of ours are this one and its parent, the daemon.
    """
    hidden = {os.getpid(), os.getppid()}
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                process = Path("/proc", name)
                if int(name) in hidden or process.stat().st_uid == uid:
                    text = (process / "stat").read_bytes()
                    count += int(text[text.rindex(b")") + 2 :].split()[17])  # proc_pid_stat(5): num_threads
    return count


def _at_most(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
