"""Which limits does the kernel keep for a run?

Each process: no core file, open files, the size of a file. The whole run: memory and processes, by the cgroup controllers of
the same name, where the operator's delegation has them. Without the memory controller `memory` becomes RLIMIT_DATA, which
bounds each process and not their sum; without the pids controller `processes` is not kept. Never RLIMIT_NPROC: it counts all
processes of the user, so one run's children would stop another run's. What is not kept is said with every run (`notes`).
"""

from __future__ import annotations

import resource
from collections.abc import Collection

from sandboxd.policy.model import Limits


def rlimits(limits: Limits, controllers: Collection[str]) -> tuple[tuple[int, int], ...]:
    """Pairs of resource and value, soft and hard the same; never above the hard limit that is in force already."""
    wanted = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, limits.open_files)]
    if limits.file_bytes is not None:
        wanted.append((resource.RLIMIT_FSIZE, limits.file_bytes))
    if limits.memory_bytes is not None and "memory" not in controllers:
        wanted.append((resource.RLIMIT_DATA, limits.memory_bytes))
    return tuple((kind, _at_most(value, resource.getrlimit(kind)[1])) for kind, value in wanted)


def cgroup_files(limits: Limits, controllers: Collection[str]) -> dict[str, str]:
    """What to write into which file of the run's cgroup."""
    files: dict[str, str] = {}
    if limits.memory_bytes is not None and "memory" in controllers:
        files |= {"memory.max": str(limits.memory_bytes), "memory.oom.group": "1"}
    if limits.processes is not None and "pids" in controllers:
        files["pids.max"] = str(limits.processes)
    return files


def notes(limits: Limits, controllers: Collection[str]) -> tuple[str, ...]:
    """What the policy limits and this host cannot keep."""
    said = []
    if limits.memory_bytes is not None and "memory" not in controllers:
        said.append("the policy's `memory` holds for each process and not for their sum: no memory controller is delegated")
    if limits.processes is not None and "pids" not in controllers:
        said.append("the policy's `processes` is not kept: no pids controller is delegated")
    return tuple(said)


def _at_most(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
