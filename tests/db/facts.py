"""What is written in tests: one table of numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sandboxd.db.schema import Schema

SCHEMA = Schema(4711, ("CREATE TABLE facts (number INTEGER PRIMARY KEY, data BLOB) STRICT;",))


def insert(number: int, data: bytes = b"") -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO facts VALUES (?, ?)", (number, data))
        return number

    return work


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM facts ORDER BY number")]
