"""How is one statement run for many rows in one call of SQLite?

Each call lets go of the interpreter, and beside a loop that is busy the writer's thread waits for it anew, up to `HANDOVER_S`
(`writer`). `executemany` calls once a row and more, so a commit of sixteen short tasks was some 300 handovers. A statement that
takes all rows as its `VALUES` is one call, and the other core does its work meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

_MOST_ROWS: Final = 64  # of 15 columns at most: far below the 32,766 parameters that a statement may have


def run(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run the statement, in which `VALUES {rows}` stands for the rows, in their order.

    In an `UPDATE … FROM (VALUES {rows}) AS new` the columns are `new.column1` and so on; no two rows may mean the same one of
    the table's. It is run for 64, 32, … 1 rows at once, so that SQLite has each of these prepared after a while.
    """
    done = 0
    while done < len(rows):
        count = min(_MOST_ROWS, 1 << (len(rows) - done).bit_length() - 1)
        part = rows[done : done + count]
        connection.execute(_spelled(statement, len(part[0]), count), tuple(chain.from_iterable(part)))
        done += count


@cache
def _spelled(statement: str, columns: int, count: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return statement.replace("{rows}", ", ".join([row] * count))
