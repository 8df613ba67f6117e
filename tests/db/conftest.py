"""A file with the one table, for those who need no more of a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd.db.connection import connect
from tests.db.facts import SCHEMA


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "facts.sqlite"
    path.touch()
    opened = connect(path)
    opened.execute("PRAGMA journal_mode = WAL")
    opened.executescript(SCHEMA.migrations[0])
    yield opened
    opened.close()
