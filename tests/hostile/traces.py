"""What is different afterwards, and what belongs to which process? (looks from outside)"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def contents(paths: Sequence[Path]) -> dict[str, str]:
    """What stands where: names of a folder, bytes of a file, the end of a link."""
    found = {}
    for path in paths:
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_dir():
            is_state = path.name == "state"  # the daemon's own comings and goings are none of an attack's
            names = [name for name in sorted(os.listdir(path)) if not is_state or name == "write_state"]
            found[str(path)] = f"{names}"
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def metadata(paths: Sequence[Path]) -> dict[str, str]:
    """Mode, time, links and attributes of each file; a folder's mode alone, for its time follows its content."""
    found = {}
    for path in paths:
        with suppress(OSError):
            facts = path.lstat()
            more = f"{facts.st_mtime_ns} {facts.st_nlink} {os.listxattr(path, follow_symlinks=False)}" if path.is_file() else ""
            found[str(path)] = f"{facts.st_mode:o} {more}"
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{path}: {before.get(path, 'nothing')} → {after.get(path, 'nothing')}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )


def spawner_of(daemon_pid: int) -> int:
    for pid in children_of(daemon_pid):
        if b"sandboxd.runner.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("the daemon has no spawner")


def children_of(pid: int) -> list[int]:
    """Of all its threads: who starts a process in a thread is its parent."""
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted(int(child) for of_thread in found for child in of_thread)


def cgroup_of(pid: int) -> tuple[str, str]:
    """Where cgroup2 is mounted, and where below it the process is; nothing where there is none."""
    line = next((line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    for mount in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = mount.partition(" - ")
        if right.startswith("cgroup2 ") and left.split()[3] == "/" and line:
            return left.split()[4], line[3:]
    return "", ""
