"""How does an operator get a copy of the store?

The copy is one file: the output that stands in files beside the store is put into it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from pathlib import Path

from sandboxd.db.backup import Copied, copy
from sandboxd.db.connection import DatabaseUnavailable, connect_reader
from sandboxd.store.base import StoreUnavailable
from sandboxd.store.files import Files, OutputDamaged
from sandboxd.store.schema import SCHEMA


def back_up(store: Path, target: Path) -> Copied:
    """Copy the store as it stands, whether a daemon has it open or not; `StoreUnavailable` says why there is no copy."""
    try:
        return copy(store, target, SCHEMA, partial(_bring_in, store))
    except DatabaseUnavailable as error:
        raise StoreUnavailable(f"cannot copy the store `{store}`: {error}") from error


def _bring_in(store: Path, copied: sqlite3.Connection) -> None:
    if copied.execute("SELECT 1 FROM sqlite_schema WHERE name = 'files'").fetchone() is None:
        return  # of an older version
    files = Files(store)
    copied.execute("BEGIN IMMEDIATE")
    pieces = copied.execute(
        "SELECT output.number, files.number, offset, output.size, checksum FROM output JOIN files USING (task, artifact)"
        " WHERE checksum IS NOT NULL"
    ).fetchall()
    for number, file, offset, size, checksum in pieces:
        try:
            data = files.read(file, offset, size, checksum)
        except OutputDamaged as error:
            raise _explained(store, file, error) from error
        copied.execute("UPDATE output SET data = ?, size = NULL, checksum = NULL WHERE number = ?", (data, number))
    if copied.execute("SELECT 1 FROM output WHERE checksum IS NOT NULL").fetchone():
        raise DatabaseUnavailable("it is damaged: it does not know in which file some output stands")
    copied.execute("DELETE FROM files")
    copied.execute("COMMIT")


def _explained(store: Path, file: int, error: OutputDamaged) -> DatabaseUnavailable:
    """A task that was forgotten during the copying took its output along."""
    with contextlib.closing(connect_reader(store)) as reading:
        if reading.execute("SELECT 1 FROM files WHERE number = ? AND task IS NOT NULL", (file,)).fetchone():
            return error
    return DatabaseUnavailable("output was removed by its age in the meantime; copy it again")
