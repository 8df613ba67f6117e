"""Is this file ours, and ours alone?

Folder 0700, files 0600 (SQLite gives its log and index the mode of the file itself). One process at a time: a second one is
refused by an flock on `<file>.lock`, which the kernel lets go when the first one dies, however it dies. The lock file stays:
whoever unlinks one lets two processes lock two files of the same name. It also says whether the file has held tables: to SQLite
an empty file is a new database, so one that was cut to nothing would come back as one that never held anything.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from pathlib import Path
from typing import Final

from sandboxd.db.connection import DatabaseUnavailable

RESTORE: Final = "restore a copy, or move it away to begin a new one"
_HOLDS: Final = b"holds tables\n"
_HEADER_BYTES: Final = 100


def prepare(path: Path) -> int:
    """Make folder and file, take the lock; the descriptor that holds it (close it to let go)."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(path.parent)
        lock = _lock(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise DatabaseUnavailable(f"{error.strerror}: `{error.filename or path}`") from error
    try:
        _refuse_cut(path, lock)
        _create(path)
    except OSError as error:
        os.close(lock)
        raise DatabaseUnavailable(f"{error.strerror}: `{error.filename or path}`") from error
    except DatabaseUnavailable:
        os.close(lock)
        raise
    return lock


def say_it_holds(lock: int) -> None:
    """The file has its tables from now on: without any it is damaged."""
    if not _holds(lock):
        os.pwrite(lock, _HOLDS, os.fstat(lock).st_size)
        os.fsync(lock)


def _holds(lock: int) -> bool:
    return _HOLDS in os.pread(lock, 256, 0)


def has_log(path: Path) -> bool:
    """Whether a write-ahead log with something in it is there: SQLite removes it when the last connection closes well."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _refuse_cut(path: Path, lock: int) -> None:
    """SQLite takes a file of less than a header for a new one, and does not miss the end of the last page."""
    try:
        with path.open("rb") as file:
            header, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    except FileNotFoundError:  # moved away, to begin a new one
        return
    if size < _HEADER_BYTES:
        if _holds(lock):
            raise DatabaseUnavailable(f"it is damaged: it held tables, and {size} bytes are left\n  {RESTORE}")
        return
    # https://www.sqlite.org/fileformat.html#the_database_header; a log may hold pages that the file does not have yet.
    (page_bytes,), (pages,) = struct.unpack(">H", header[16:18]), struct.unpack(">I", header[28:32])
    if not has_log(path) and header[24:28] == header[92:96] and size < pages * (page_bytes if page_bytes > 1 else 65_536):
        raise DatabaseUnavailable(f"it is damaged: {size} bytes are left of its {pages} pages\n  {RESTORE}")


def _check_folder(folder: Path) -> None:
    mode = folder.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        raise DatabaseUnavailable(
            f"others can write its folder `{folder}` (mode {stat.S_IMODE(mode):04o}), so they could put another file in its "
            f"place\n  try: chmod 700 {folder}"
        )


def _lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).decode("ascii", "replace").partition("\n")[0]
        os.close(lock)
        raise DatabaseUnavailable(
            f"another sandboxd{f' (process {owner})' if owner else ''} has it open, and one file has one owner"
        ) from None
    holds = _HOLDS if _holds(lock) else b""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode() + holds, 0)
    return lock


def _create(path: Path) -> None:
    # Before SQLite does: it would take the umask's mode.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:  # a restored copy, say
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # a new file's name must be on disk before what it holds counts as kept
    finally:
        os.close(folder)
