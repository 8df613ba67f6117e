"""Does each member of a group commit hear what became of it?"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from sandboxd.db.batch import Alike, Done, Undone, Work, commit_together
from sandboxd.db.connection import DatabaseUnavailable, connect
from tests.db.facts import insert, numbers


def test_each_member_of_a_group_has_its_own_outcome(connection):
    outcomes = commit_together(connection, [insert(1), insert(1), insert(2), lambda c: c.execute("no sql"), insert(3)])

    assert outcomes[0] == Done(1)
    assert isinstance(outcomes[1], Undone)
    assert isinstance(outcomes[1].error, sqlite3.IntegrityError)
    assert isinstance(outcomes[3], Undone)
    assert isinstance(outcomes[3].error, DatabaseUnavailable)
    assert [outcomes[2], outcomes[4]] == [Done(2), Done(3)]
    assert numbers(connection) == [1, 2, 3]


def test_a_group_in_which_nobody_raises_needs_no_savepoints(connection):
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    assert commit_together(connection, [insert(1), insert(2)]) == [Done(1), Done(2)]

    assert [statement.split()[0] for statement in statements] == ["BEGIN", "INSERT", "INSERT", "COMMIT"]


class Inserts:
    """Works alike: `calls` has what each call was given."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, connection: sqlite3.Connection, members: Sequence[int]) -> list[int]:
        self.calls.append(list(members))
        connection.executemany("INSERT INTO facts (number) VALUES (?)", [(number,) for number in members])
        return [10 * number for number in members]


def test_works_alike_that_follow_each_other_are_done_in_one_call(connection):
    some, others = Inserts(), Inserts()
    works: list[Work] = [Alike(some, 1), Alike(some, 2), Alike(others, 3), insert(4), insert(5), Alike(some, 6)]

    assert commit_together(connection, works) == [Done(10), Done(20), Done(30), Done(4), Done(5), Done(60)]
    assert (some.calls, others.calls) == ([[1, 2], [6]], [[3]])
    assert numbers(connection) == [1, 2, 3, 4, 5, 6]


def test_one_of_works_alike_that_raises_is_undone_alone(connection):
    some = Inserts()
    outcomes = commit_together(connection, [Alike(some, 1), Alike(some, 1), Alike(some, 2), insert(3)])

    assert isinstance(outcomes[1], Undone)
    assert isinstance(outcomes[1].error, sqlite3.IntegrityError)
    assert [outcomes[0], *outcomes[2:]] == [Done(10), Done(20), Done(3)]
    assert some.calls == [[1, 1, 2], [1], [1], [2]]
    assert numbers(connection) == [1, 2, 3]


def test_a_transaction_that_is_lost_is_lost_for_all_its_members(connection):
    outcomes = commit_together(connection, [insert(1), lambda c: c.execute("ROLLBACK"), insert(2)])

    assert all(isinstance(outcome, Undone) and isinstance(outcome.error, DatabaseUnavailable) for outcome in outcomes)
    assert numbers(connection) == []
    assert commit_together(connection, [insert(3)]) == [Done(3)]


def test_a_file_that_somebody_else_locks_is_said_and_works_again_afterwards(connection, tmp_path):
    connection.execute("PRAGMA busy_timeout = 0")
    other = connect(tmp_path / "facts.sqlite")
    other.execute("BEGIN IMMEDIATE")
    (outcome,) = commit_together(connection, [insert(1)])
    other.close()

    assert isinstance(outcome, Undone)
    assert "database is locked" in str(outcome.error)
    assert commit_together(connection, [insert(2)]) == [Done(2)]


class Beside:
    """Notes whether what it was told to flush was on record by then; or cannot flush."""

    def __init__(self, connection: sqlite3.Connection, *, fails: bool = False) -> None:
        self._connection, self._fails = connection, fails
        self.told: list[str] = []

    def flush(self) -> None:
        self.told.append("flush" if self._connection.in_transaction else "flush too late")
        if self._fails:
            raise DatabaseUnavailable("I/O error")

    def forget(self) -> None:
        self.told.append("forget")


def test_what_stands_beside_the_file_is_flushed_before_the_commit(connection):
    beside = Beside(connection)
    assert commit_together(connection, [insert(1), insert(2)], beside) == [Done(1), Done(2)]

    assert beside.told == ["flush"]
    assert numbers(connection) == [1, 2]


def test_nothing_is_committed_where_what_stands_beside_cannot_be_flushed(connection):
    beside = Beside(connection, fails=True)
    outcomes = commit_together(connection, [insert(1), insert(2)], beside)

    assert [str(outcome.error) for outcome in outcomes if isinstance(outcome, Undone)] == ["I/O error", "I/O error"]
    assert beside.told == ["flush", "forget"]
    assert numbers(connection) == []
