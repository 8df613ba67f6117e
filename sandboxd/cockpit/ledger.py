"""How is a cockpit's audit read by somebody who is not the cockpit?

Straight from its file, also while the cockpit runs: one moment a page, nothing is locked for long, and nothing can be written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sandboxd.chain import Kept
from sandboxd.cockpit import audit
from sandboxd.cockpit.schema import SCHEMA
from sandboxd.db.connection import DatabaseUnavailable, connect_reader, why
from sandboxd.db.schema import check_belongs

STORE_NAME: Final = "cockpit.db"  # within the cockpit's state folder
PAGE: Final = 500


class Ledger:
    """The audit in one file, opened by `open_ledger`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def last(self, limit: int) -> Sequence[Kept]:
        """The last `limit` entries, in order."""
        return audit.last(self._connection, limit)

    def after(self, number: int) -> Iterator[Kept]:
        """Every entry behind that number, in order."""
        while page := audit.after(self._connection, number, PAGE):
            yield from page
            number = page[-1].number


@contextmanager
def open_ledger(state_dir: Path) -> Iterator[Ledger]:
    """The audit of the cockpit that keeps its state there; `DatabaseUnavailable` says why it cannot be read."""
    path = state_dir / STORE_NAME
    if not path.is_file():
        raise DatabaseUnavailable(f"there is no `{path}`")
    try:
        with closing(connect_reader(path)) as connection:
            check_belongs(connection, SCHEMA)
            yield Ledger(connection)
    except sqlite3.Error as error:
        raise DatabaseUnavailable(why(error)) from error
