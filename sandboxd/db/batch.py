"""What becomes of each member of a group commit?

All members share one BEGIN … COMMIT and so one flush of the disk; those that follow each other and are `Alike` share one call
too. A member that raises is undone alone: then the transaction is begun anew, with a savepoint and a call for each. Hardly a
group has such a member, and two savepoint statements for each cost as much as an insert. So a work can be run twice, and may
change nothing but the file (and what stands beside it, to the same again). Once the transaction itself is lost (disk full, I/O
error) nothing of it was kept, and every member hears so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

import attrs

from sandboxd.db.connection import DatabaseUnavailable, is_outage, why
from sandboxd.values import frozen

Work = Callable[[sqlite3.Connection], Any]


@attrs.frozen(eq=False)
class Alike:
    """A work that is done in one call with those beside it that have the same `together`; one value each, in their order."""

    together: Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]]
    what: Any

    def __call__(self, connection: sqlite3.Connection) -> Any:
        """Do it alone."""
        return self.together(connection, [self.what])[0]


@frozen
class Done:
    """It is on disk; what the work returned."""

    value: Any


@frozen
class Undone:
    """Nothing of it was kept; why."""

    error: Exception


Outcome = Done | Undone


class Beside(Protocol):
    """What works write beside the file, and has to be on disk before the commit that refers to it."""

    def flush(self) -> None:
        """Return once it is on disk; `DatabaseUnavailable`."""

    def forget(self) -> None:
        """Nothing of it counts."""


class _Nothing:
    """No work writes anything beside the file."""

    def flush(self) -> None:
        """As `Beside.flush`."""

    def forget(self) -> None:
        """As `Beside.forget`."""


NOTHING: Final = _Nothing()


def commit_together(connection: sqlite3.Connection, works: Sequence[Work], beside: Beside = NOTHING) -> list[Outcome]:
    """Run the works in order and commit them at once; one outcome each. Raises nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        outcomes = _run_all(connection, works)
        beside.flush()
        connection.execute("COMMIT")
    except Exception as error:  # whatever it was, no member may be told that it is kept
        _roll_back(connection)
        beside.forget()
        return [Undone(_outage(error)) for _ in works]
    return outcomes


def _run_all(connection: sqlite3.Connection, works: Sequence[Work]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    try:
        for values in _run_alike(connection, works):
            outcomes.extend(map(Done, values))
            if not connection.in_transaction:  # what follows would be committed each by itself
                raise sqlite3.OperationalError("the transaction was lost")
    except Exception:
        if not connection.in_transaction:  # SQLite rolls all of it back after SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM
            raise
    else:
        return outcomes
    connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")
    return [_run(connection, work) for work in works]


def _run_alike(connection: sqlite3.Connection, works: Sequence[Work]) -> Iterator[Sequence[Any]]:
    for together, members in groupby(works, key=lambda work: work.together if isinstance(work, Alike) else None):
        if together is None:
            for work in members:
                yield (work(connection),)
        else:
            yield together(connection, [work.what for work in members if isinstance(work, Alike)])


def _run(connection: sqlite3.Connection, work: Work) -> Outcome:
    connection.execute("SAVEPOINT member")
    try:
        value = work(connection)
    except Exception as error:
        if not connection.in_transaction:  # as above
            raise
        connection.execute("ROLLBACK TO member")
        connection.execute("RELEASE member")
        return Undone(_outage(error) if is_outage(error) else error)
    connection.execute("RELEASE member")
    return Done(value)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:  # the next BEGIN says whether the connection is of any use
            return


def _outage(error: BaseException) -> DatabaseUnavailable:
    if isinstance(error, DatabaseUnavailable):
        return error
    outage = DatabaseUnavailable(why(error))
    outage.__cause__ = error
    return outage
