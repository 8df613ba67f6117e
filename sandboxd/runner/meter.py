"""How much is in a run's temporary folder, while the run works in it?

At `standard` that is a folder on the daemon's file system, to which nobody without privileges can give a size. So it is
measured: what has a name there, and what has lost its name and is held open still. A run that has passed its size is ended,
with that for its reason. This is no quota: it comes after the fact, by a look at most, and what has neither a name nor a
descriptor (mapped, or on its way through a socket) is not seen.

The file system is asked first, which costs nothing: folders are looked at when it has filled up since the last time, else every
few seconds, for somebody may have freed meanwhile what a run has taken. A look goes in small pieces between the spawner's other
work. What does not let itself be looked at (deeper than a name can say, closed again and again) counts as too much.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import Final

from sandboxd.runner import linux
from sandboxd.values import frozen

TICK_S: Final = 0.2  # how often the file system is asked while there is anything to measure
_LOOK_S: Final = 5.0  # how often folders are looked at, whatever it says
_SHARE: Final = 10  # at most one part of so many of the spawner's time
_STEP: Final = 8  # of the smallest size, one part of so many: what the file system may fill up without a look
_PIECE: Final = 200  # names at a time: about a millisecond
_FOLDER_BYTES: Final = 4096  # some file systems give folders no blocks
_NAME_BYTES: Final = 512  # an inode and a name: a million empty files are not nothing
_LOST: Final = " (deleted)"
_RESOLVE: Final = linux.RESOLVE_BENEATH | linux.RESOLVE_NO_SYMLINKS | linux.RESOLVE_NO_MAGICLINKS | linux.RESOLVE_NO_XDEV
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Look = Generator[None, None, bool]


@frozen
class _Watched:
    most_bytes: int
    members: Callable[[], Collection[int]]
    passed: Callable[[], None]


class Meter:
    """Looks at the temporary folders of all runs, one after the other. Owned by the spawner's one thread."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._round: Generator[None] | None = None
        self._used_bytes = 0
        self._spent_s = 0.0
        self._ask_at = 0.0
        self._soonest_at = 0.0
        self._latest_at = 0.0

    def watch(
        self, folder: str, most_bytes: int, *, members: Callable[[], Collection[int]], passed: Callable[[], None]
    ) -> None:
        """Have that folder, by its real path, measured until `forget`.

        `members`: pids of the run; `passed`: called once, when it is too much.
        """
        self._watched[folder] = _Watched(most_bytes, members, passed)

    def forget(self, folder: str) -> None:
        """Look at it no more."""
        self._watched.pop(folder, None)

    def timeout_s(self) -> float | None:
        """How long nothing is to be done here; None: for ever."""
        if not self._watched:
            return None
        return 0.0 if self._round is not None else max(0.0, self._ask_at - time.monotonic())

    def look_some(self) -> None:
        """One small piece of what is due."""
        began = time.monotonic()
        if self._round is None:
            if not self._watched or began < self._ask_at:
                return
            self._ask_at = began + TICK_S
            if not self._is_due(began):
                return
            self._round, self._spent_s = self._look_at_all(), 0.0
        try:
            next(self._round)
        except StopIteration:
            self._round = None
        ended = time.monotonic()
        self._spent_s += ended - began
        self._soonest_at, self._latest_at = ended + _SHARE * self._spent_s, ended + _LOOK_S

    def _is_due(self, now: float) -> bool:
        if now < self._soonest_at:
            return False
        used_bytes = _used_bytes(next(iter(self._watched)))
        step_bytes = min(watched.most_bytes for watched in self._watched.values()) // _STEP
        if now < self._latest_at and used_bytes < self._used_bytes + step_bytes:
            self._used_bytes = min(self._used_bytes, used_bytes)  # what was freed can be taken again
            return False
        self._used_bytes = used_bytes
        return True

    def _look_at_all(self) -> Generator[None]:
        for folder, watched in list(self._watched.items()):
            is_passed = yield from passes(folder, watched.most_bytes, watched.members)
            if is_passed and self._watched.pop(folder, None) is not None:
                watched.passed()


def passes(folder: str, most_bytes: int, members: Callable[[], Collection[int]]) -> Look:
    """Whether more than that is there, in pieces; a folder that is gone holds nothing."""
    try:
        top = os.open(folder, _OPEN | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        found_bytes = yield from _named_bytes(top, most_bytes)
    except OSError:  # it hides what it has
        return True
    finally:
        os.close(top)
    if found_bytes <= most_bytes:
        found_bytes += yield from _nameless_bytes(folder, most_bytes - found_bytes, members())
    return found_bytes > most_bytes


def _named_bytes(top: int, most_bytes: int) -> Generator[None, None, int]:
    """What all names below take, or the first sum above `most_bytes`; `OSError` where it cannot be told."""
    found_bytes = done = 0
    row = ["."]
    while row:
        name = row.pop()
        folder = _enter(top, name)
        if folder is None:
            continue
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        facts = entry.stat(follow_symlinks=False)
                        found_bytes += _bytes_of(facts)
                        if stat.S_ISDIR(facts.st_mode):
                            row.append(f"{name}/{entry.name}")
                    if found_bytes > most_bytes:
                        return found_bytes
                    if (done := done + 1) % _PIECE == 0:
                        yield
        finally:
            os.close(folder)
    return found_bytes


def _enter(top: int, name: str) -> int | None:
    """The folder, opened up where its owner could not look into it; None: it is gone, or no folder any more."""
    try:
        path = linux.openat2(top, name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, resolve=_RESOLVE)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    try:
        mode = stat.S_IMODE(os.fstat(path).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{path}").chmod(mode | stat.S_IRWXU)
        return os.open(".", _OPEN, dir_fd=path)
    except FileNotFoundError:
        return None
    finally:
        os.close(path)


def _nameless_bytes(folder: str, most_bytes: int, pids: Collection[int]) -> Generator[None, None, int]:
    """What files without a name take that one of these processes has open."""
    found_bytes = done = 0
    known: set[int] = set()
    for pid in pids:
        try:
            fds = os.listdir(f"/proc/{pid}/fd")
        except OSError:  # gone
            continue
        for fd in fds:
            link = Path(f"/proc/{pid}/fd/{fd}")
            with contextlib.suppress(OSError):
                at = str(link.readlink())
                if at.startswith(f"{folder}/") and at.endswith(_LOST):
                    facts = link.stat()
                    if facts.st_nlink == 0 and facts.st_ino not in known:
                        known.add(facts.st_ino)
                        found_bytes += _bytes_of(facts)
            if found_bytes > most_bytes:
                return found_bytes
            if (done := done + 1) % _PIECE == 0:
                yield
    return found_bytes


def _bytes_of(facts: os.stat_result) -> int:
    """What it takes: its blocks, but for those beyond its end that the file system holds ready (XFS); a link has its share."""
    if stat.S_ISDIR(facts.st_mode):
        return max(facts.st_blocks * 512, _FOLDER_BYTES)
    in_use = min(facts.st_blocks * 512, facts.st_size + _FOLDER_BYTES)
    return max(in_use // max(facts.st_nlink, 1), _NAME_BYTES)


def _used_bytes(folder: str) -> int:
    try:
        facts = os.statvfs(folder)
    except OSError:
        return 0
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
