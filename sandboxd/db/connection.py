"""How is SQLite spoken to?

Write-ahead log and `synchronous=FULL`: a commit that returned has been flushed (fdatasync) and outlives a power cut.
Transactions are begun by hand (`isolation_level=None`): the sqlite3 module's own guesses would commit at the wrong moment.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

BUSY_TIMEOUT_S: Final = 5.0  # somebody with the sqlite3 shell may hold the write lock for a moment
CACHED_STATEMENTS: Final = 256
WAL_LIMIT_BYTES: Final = 64 * 1024 * 1024  # a long read can let the log grow; it is cut back to this afterwards


_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class DatabaseUnavailable(Exception):
    """The file cannot be opened, read or written; the message is the why of `cannot <do> <what>: <why>`."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection that any one thread at a time may use; `path` must exist."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that refuses to write."""
    connection = connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def is_outage(error: BaseException) -> bool:
    """Whether the file, the disk or SQLite failed, as against a statement of ours that broke a rule of the schema."""
    return isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError)


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite found that the file is not what it wrote."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def why(error: BaseException) -> str:
    """SQLite's words and its name for them: `database or disk is full (SQLITE_FULL)`."""
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else str(error)


def file_of(connection: sqlite3.Connection) -> str:
    """The name of its file."""
    name: str = connection.execute("PRAGMA database_list").fetchone()[2]
    return name


def is_read_only(file: str) -> bool:
    """Whether the file system under the file is read-only now, which a kernel makes it that has met an error there.

    Writing need not tell: on ext4 a flush of a file system that was made read-only with files open (sysrq `u`) returns 0 and
    has flushed nothing (seen on Linux 6.1).
    """
    try:
        return bool(os.statvfs(file).f_flag & os.ST_RDONLY)
    except OSError:  # whatever it is, writing tells it
        return False
