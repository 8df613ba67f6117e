"""Where can a run have a cgroup of its own, and how does all of it end there?

With one, `cgroup.kill` (Linux 5.14) ends every process of a run at once, however often it forked, whatever session it is in
and whatever it ignores; a fork cannot outrun it. No controller is needed; those for memory, pids and cpu are used where the
operator's delegation has them. A spawner makes one directory for itself, and in it one for each run, so whoever survives the
spawner can end all of its runs with one write.

At isolation level `none` a run has the daemon's user id, and with it the right to move itself into another cgroup of the
delegated tree; `tree` sweeps after such processes. The other levels take that right away.

A spawner holds a lock (flock(2)) on its directory for as long as it lives. A directory that nobody holds was left by one that
was killed together with its daemon, and whoever comes next ends what is in it and removes it (`sweep`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sandboxd.values import frozen

_KILL: Final = "cgroup.kill"
_PROCS: Final = "cgroup.procs"
_SWAP: Final = "memory.swap.max"
_LINKS_ALONE: Final = 2  # a directory's own, and one more for each directory in it (kernfs counts like everybody)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_BASE: Final = re.compile(r"sandboxd-[0-9a-f]{12}")
_TRIES: Final = 8  # each lost to somebody who swept just then
_SWEEP_S: Final = 2.0  # cgroup.kill takes 1 to 10 ms; what is left after this hangs in the kernel
_TICK_S: Final = 0.005
_held: list[int] = []  # the locks of this process, never given back: they end with it


@frozen
class NoCgroup:
    """Why runs get no cgroup of their own."""

    why: str


def make_base(named: str | None) -> Path | NoCgroup:
    """A fresh directory for one spawner, held by this process and proved to work: a child of it has entered it."""
    parent = Path(named) if named is not None else own()
    if isinstance(parent, NoCgroup):
        return parent
    if not (parent / _PROCS).is_file():
        return NoCgroup(f"`{parent}` is no cgroup2 directory")
    try:
        base = _make_held(parent)
    except OSError as error:
        return NoCgroup(f"cannot make a cgroup in `{parent}`: {_text(error)}")
    why = _try_to_enter(base)
    if why is None:
        return base
    remove(base)
    return NoCgroup(why)


def sweep(named: str | None) -> int:
    """End and remove what spawners left that were killed with their daemons; how many directories. Blocks up to 2 s."""
    parent = Path(named) if named is not None else own()
    if isinstance(parent, NoCgroup) or not (parent / _PROCS).is_file():
        return 0
    found = 0
    deadline = time.monotonic() + _SWEEP_S
    for path in parent.iterdir():
        lock = _lock(path) if _BASE.fullmatch(path.name) else None
        if lock is None:
            continue
        found += 1
        kill(path)
        while not remove(path) and time.monotonic() < deadline:
            time.sleep(_TICK_S)
        os.close(lock)  # not before it is gone: its maker may only just have made it, and takes another then
    return found


def use_controllers(base: Path) -> frozenset[str]:
    """Turn on for the runs below `base` what is delegated of the controllers for memory, pids and cpu; those that are on."""
    on = set()
    for name in ("memory", "pids", "cpu"):
        with contextlib.suppress(OSError):
            (base / "cgroup.subtree_control").write_text(f"+{name}")
            on.add(name)
    return frozenset(on)


def make_run(base: Path, task_id: str, files: Mapping[str, str]) -> Path:
    """A fresh directory for one run, its limits written; `OSError`, that says what it is about.

    A base that somebody has removed, which is easy while no run is in it, is made anew.
    """
    try:
        if not base.is_dir():
            base.mkdir(0o755)
            if (lock := _lock(base)) is not None:
                _held.append(lock)
            use_controllers(base)
        return _make_run(base, task_id, files)
    except OSError as error:
        raise OSError(f"cannot make a cgroup for it: {_text(error)}") from error


def _make_run(base: Path, task_id: str, files: Mapping[str, str]) -> Path:
    name = "run-" + _UNSAFE.sub("_", task_id)[:100]
    for attempt in range(100):
        path = base / (name if attempt == 0 else f"{name}.{attempt}")
        try:
            path.mkdir(0o755)
        except FileExistsError:
            continue
        for file, text in files.items():
            if file != _SWAP or (path / file).exists():  # a kernel that does not account for swap has no such file
                (path / file).write_text(text)
        return path
    raise OSError("too many have that name")


def open_procs(path: Path) -> int:
    """A descriptor that a forked child writes `0` to, to enter the cgroup."""
    return os.open(path / _PROCS, os.O_WRONLY | os.O_CLOEXEC)


def open_folder(path: Path) -> int:
    """A descriptor of its directory: for `linux.fork`, and for `move_here`."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def move_here(folder_fd: int) -> None:
    """Have this process enter that cgroup; `OSError`."""
    procs = os.open(_PROCS, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        os.write(procs, b"0")
    finally:
        os.close(procs)


def kill(path: Path) -> None:
    """SIGKILL to everything in the cgroup and below it, at once. Nothing happens when it is gone."""
    with contextlib.suppress(FileNotFoundError, OSError):
        (path / _KILL).write_text("1")


def pids(path: Path) -> set[int]:
    """The processes in the cgroup and below it, as they are right now."""
    found: set[int] = set()
    for folder in _folders(path):
        with contextlib.suppress(OSError), open(folder / _PROCS, "rb", buffering=0) as file:
            found.update(map(int, file.readall().split()))
    return found


def oom_kills(path: Path) -> int:
    """How many of its processes the kernel ended for want of memory (memory.events of cgroups(7)); 0 where nobody counts."""
    with contextlib.suppress(OSError, ValueError):
        for line in (path / "memory.events").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def remove(path: Path) -> bool:
    """Remove the directory and those that a run has made in it; False when something is in there still (EBUSY)."""
    for folder in reversed(_folders(path)):
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _folders(path: Path) -> list[Path]:
    """It and what is below it, which is mostly nothing: a count of links says that without a listing of some forty files."""
    try:
        if path.stat().st_nlink <= _LINKS_ALONE:
            return [path]
    except OSError:
        return []
    return [Path(folder) for folder, _, _ in os.walk(path)]


def _make_held(parent: Path) -> Path:
    """A directory that this process holds: between its making and the lock, somebody's sweep may have taken it."""
    for _ in range(_TRIES):
        base = parent / f"sandboxd-{os.urandom(6).hex()}"
        base.mkdir(0o755)
        lock = _lock(base)
        if lock is None:
            continue
        if base.is_dir():
            _held.append(lock)
            return base
        os.close(lock)
    raise OSError(errno.EBUSY, "whatever is made there is swept away")


def _lock(base: Path) -> int | None:
    """A descriptor that holds the directory; None: somebody else does, or it is gone, or not ours to touch."""
    try:
        fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def own() -> Path | NoCgroup:
    """The directory of the cgroup that this process is in, wherever cgroup2 is mounted (a hybrid host has it elsewhere)."""
    try:
        inside = next(
            line.removeprefix("0::") for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")
        )
    except (OSError, StopIteration):
        return NoCgroup("this process is in no cgroup2 hierarchy")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()  # proc_pid_mountinfo(5): id, parent, device, root, mount point, options …
        if right.split()[0] != "cgroup2":
            continue
        try:
            below = Path(inside).relative_to(_unescape(fields[3]))
        except ValueError:
            continue
        return Path(_unescape(fields[4])) / below
    return NoCgroup("cgroup2 is not mounted where this process is")


def _try_to_enter(base: Path) -> str | None:
    """Why a child of this process cannot enter `base`, or None. Must be called while there is one thread."""
    if not (base / _KILL).exists():
        return "this kernel has no cgroup.kill (Linux 5.14 or newer is needed)"
    try:
        procs = open_procs(base)
    except OSError as error:
        return f"cannot enter a cgroup in `{base.parent}`: {_text(error)}"
    try:
        child = os.fork()
        if child == 0:
            try:
                os.write(procs, b"0")
            except OSError as error:
                os._exit(error.errno or 1)
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(procs)
    return f"cannot enter a cgroup in `{base.parent}`: {os.strerror(status).lower()}" if status else None


def _text(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _unescape(text: str) -> str:
    """mountinfo writes blanks and backslashes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
