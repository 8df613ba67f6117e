"""Are all rows there, in their order, however many they are?"""

from __future__ import annotations

import sqlite3

import pytest

from sandboxd.db import rows
from tests.db.facts import numbers

INSERT = "INSERT INTO facts (number, data) VALUES {rows}"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 65, 200])
def test_every_row_is_inserted_once(connection, count):
    rows.run(connection, INSERT, [(number, b"%d" % number) for number in range(count)])

    found = connection.execute("SELECT number, data FROM facts ORDER BY number").fetchall()
    assert found == [(number, b"%d" % number) for number in range(count)]


def test_rows_are_inserted_in_their_order(connection):
    rows.run(connection, "INSERT INTO facts (data) VALUES {rows}", [(b"%d" % number,) for number in range(100)])

    assert [data for (data,) in connection.execute("SELECT data FROM facts ORDER BY number")] == [b"%d" % n for n in range(100)]


def test_one_call_of_sqlite_takes_many_rows(connection):
    statements: list[str] = []
    connection.set_trace_callback(statements.append)

    rows.run(connection, INSERT, [(number, b"") for number in range(64)])

    assert len(statements) == 1


def test_every_row_is_updated_with_its_own_values(connection):
    rows.run(connection, INSERT, [(number, b"") for number in range(5)])

    statement = "UPDATE facts SET data = new.column1 FROM (VALUES {rows}) AS new WHERE number = new.column2"
    rows.run(connection, statement, [(b"%d" % number, number) for number in range(1, 4)])

    found = connection.execute("SELECT data FROM facts ORDER BY number").fetchall()
    assert found == [(b"",), (b"1",), (b"2",), (b"3",), (b"",)]


def test_a_row_that_breaks_a_rule_raises(connection):
    rows.run(connection, INSERT, [(3, b"")])

    with pytest.raises(sqlite3.IntegrityError):
        rows.run(connection, INSERT, [(number, b"") for number in range(2, 5)])

    assert numbers(connection) == [3]
