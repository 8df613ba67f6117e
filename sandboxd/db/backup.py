"""How is the file copied whole while somebody writes it?

`VACUUM INTO` (https://www.sqlite.org/lang_vacuum.html) is one read: the copy is what stood at one moment, and no writer waits
for it. The copy is looked at page by page before it gets its name, so a file of that name is a whole one; nobody's file is
written over.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from sandboxd.db.connection import DatabaseUnavailable, connect, why
from sandboxd.db.schema import Schema, check_belongs
from sandboxd.values import frozen


@frozen
class Copied:
    """What was copied: its size, and the schema's version."""

    size_bytes: int
    version: int


def copy(source: Path, target: Path, schema: Schema, complete: Callable[[sqlite3.Connection], None] | None = None) -> Copied:
    """Copy the file, mode 0600. `DatabaseUnavailable` says why there is no copy; then nothing is left of it.

    `complete`: puts into the copy what stands beside the file.
    """
    unnamed = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            version = _copy(source, unnamed, schema)
            if complete is not None:
                with contextlib.closing(connect(unnamed)) as copied:
                    complete(copied)
            _check(unnamed)
            _flush(unnamed)
            os.link(unnamed, target)  # fails where the name is taken
            _flush(target.parent)
            return Copied(target.stat().st_size, version)
        finally:
            for leaving in (unnamed, unnamed.with_name(unnamed.name + "-journal")):
                leaving.unlink(missing_ok=True)
    except sqlite3.Error as error:
        raise DatabaseUnavailable(why(error)) from error
    except OSError as error:
        raise DatabaseUnavailable(f"{(error.strerror or str(error)).lower()}: `{error.filename2 or error.filename}`") from error


def _copy(source: Path, target: Path, schema: Schema) -> int:
    with contextlib.closing(connect(source)) as reading:
        check_belongs(reading, schema)
        reading.execute("VACUUM INTO ?", (str(target),))
        (version,) = reading.execute("PRAGMA user_version").fetchone()
        return int(version)


def _check(copied: Path) -> None:
    with contextlib.closing(sqlite3.connect(f"{copied.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as reading:
        found = [row[0] for row in reading.execute("PRAGMA integrity_check(5)")]
        orphans = reading.execute("PRAGMA foreign_key_check").fetchall()
    if found != ["ok"] or orphans:
        raise DatabaseUnavailable(f"it is damaged: {'; '.join(map(str, [*found, *orphans[:5]]))}")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
