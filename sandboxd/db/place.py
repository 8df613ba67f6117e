"""Is this file ours, and ours alone?

Folder 0700, files 0600 (SQLite gives its log and index the mode of the file itself). One process at a time: a second one is
refused by an flock on `<file>.lock`, which the kernel lets go when the first one dies, however it dies. The lock file stays:
whoever unlinks one lets two processes lock two files of the same name.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from sandboxd.db.connection import DatabaseUnavailable


def prepare(path: Path) -> int:
    """Make folder and file, take the lock; the descriptor that holds it (close it to let go)."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(path.parent)
        lock = _lock(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise DatabaseUnavailable(f"{error.strerror}: `{error.filename or path}`") from error
    try:
        _create(path)
    except OSError as error:
        os.close(lock)
        raise DatabaseUnavailable(f"{error.strerror}: `{error.filename or path}`") from error
    return lock


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
        owner = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
        os.close(lock)
        raise DatabaseUnavailable(
            f"another sandboxd{f' (process {owner})' if owner else ''} has it open, and one file has one owner"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
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
