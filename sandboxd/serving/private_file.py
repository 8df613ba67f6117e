"""How does a secret of ours stand on disk?

A small file that nobody else can read, replaced whole. What others can use is refused, since whoever reads it can act as
somebody here. A file that root writes belongs to whoever owns its folder, or the daemon could not read what the command line
made for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sandboxd.errors import LoadError, Problem

_MAX_BYTES: Final = 1024 * 1024


def read_private(path: Path) -> str:
    """The text; `LoadError` when it cannot be read or is not private."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise unusable(path, why(error)) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise unusable(path, "it is no regular file")
        if status.st_uid not in _owners(path):
            raise unusable(path, "it belongs to another user")
        if status.st_mode & 0o077:
            raise unusable(path, f"others can use it (mode {stat.S_IMODE(status.st_mode):04o}); `chmod 600` it")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise unusable(path, f"it is larger than {_MAX_BYTES} bytes")
    return content.decode(errors="replace")


def write_private(path: Path, text: str) -> None:
    """Put a file of mode 0600 in the place of what is there; after a crash the old or the new one stands. `LoadError`."""
    try:
        draft = _draft(path, text)
        try:
            draft.replace(path)
        except OSError:
            draft.unlink()
            raise
    except OSError as error:
        raise unusable(path, f"it cannot be written: {why(error)}") from error


def make_private(path: Path, text: str) -> None:
    """Make a file of mode 0600 where none is; one that is there stays. `LoadError`."""
    if path.exists():
        return
    try:
        draft = _draft(path, text)
        try:
            path.hardlink_to(draft)  # fails where the name was taken meanwhile
        finally:
            draft.unlink()
    except FileExistsError:
        return
    except OSError as error:
        raise unusable(path, f"it cannot be made: {why(error)}") from error


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """One process at a time reads the file, changes it and writes it; `LoadError`."""
    # A file of its own: the folder's own lock is taken by a daemon that starts.
    lock_path = path.with_name(f".{path.name}.lock")
    try:
        lock = os.open(lock_path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _give_to_owner(lock, path.parent)
    except OSError as error:
        raise unusable(path, f"it cannot be changed: {why(error)}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held for a read and a write of a small file
        yield
    finally:
        os.close(lock)


def unusable(path: Path, reason: str) -> LoadError:
    """The error for a file of ours that cannot be used."""
    return LoadError(str(path), [Problem("", reason)])


def why(error: OSError) -> str:
    """The kernel's words, as they stand within a sentence."""
    return (error.strerror or str(error)).lower()


def _owners(path: Path) -> set[int]:
    """Whose file may be trusted; for root, also that of whoever owns the folder, and could put any file there."""
    return {0, os.getuid()} | ({path.parent.stat().st_uid} if os.getuid() == 0 else set())


def _give_to_owner(descriptor: int, folder: Path) -> None:
    if os.getuid() == 0:
        owner = folder.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _draft(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            _give_to_owner(descriptor, path.parent)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        draft.unlink()
        raise
    return draft
