"""What may a client have been told that is not in its place in the log yet?

The question that a task is about to ask is kept ahead of its time, in a row of its own, so that it can be told the moment it is
asked: it is on disk by then. Its append follows at once, and until that is done nobody may read less than was told. Should the
daemon die in between, the row is what recovery puts on record first. A row of a task that has moved on says nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

import attrs
import trio

from sandboxd.store.base import Conflict, StoreUnavailable
from sandboxd.store.changes import Change
from sandboxd.store.codec import decode_event
from sandboxd.store.times import key
from sandboxd.tasks.events import Event


def keeping(change: Change) -> Callable[[sqlite3.Connection], None]:
    """The work that keeps the one event of that change as foreseen; `Conflict` when the task does not stand before it."""

    def keep(connection: sqlite3.Connection) -> None:
        ((kind, body, *_),) = change.rows
        done = connection.execute(
            "INSERT INTO foreseen (task, after, kind, body) SELECT number, seq, ?, ? FROM tasks WHERE id = ? AND seq = ?"
            " ON CONFLICT (task) DO UPDATE SET after = excluded.after, kind = excluded.kind, body = excluded.body",
            (kind, body, change.task_id, change.after),
        )
        if done.rowcount != 1:
            raise Conflict(f"cannot foresee an event of task `{change.task_id}`: it does not stand at {change.after}")

    return keep


def forgetting(task_id: str, after: int) -> Callable[[sqlite3.Connection], None]:
    """The work that forgets what was foreseen to follow `after`."""

    def forget(connection: sqlite3.Connection) -> None:
        connection.execute(
            "DELETE FROM foreseen WHERE after = ? AND task = (SELECT number FROM tasks WHERE id = ?)", (after, key(task_id))
        )

    return forget


def standing(connection: sqlite3.Connection) -> Mapping[int, Event]:
    """The foreseen event of each task that has one and stands before it, by the task's number."""
    rows = connection.execute(
        "SELECT task, kind, body FROM foreseen JOIN tasks ON number = task WHERE is_terminal = 0 AND seq = after"
    )
    return {number: decode_event(kind, body) for number, kind, body in rows.fetchall()}


@attrs.define(eq=False)
class _Promise:
    settled: trio.Event = attrs.field(factory=trio.Event)
    why_not: str = ""  # it could not be kept yet


class Promises:
    """Which tasks' next append has been told already, for those who read meanwhile."""

    def __init__(self) -> None:
        self._open: dict[str, _Promise] = {}

    def make(self, task_id: str) -> None:
        """What the task's next append begins with is told now; a try follows, and ends in `keep` or `fail`."""
        self._open[task_id] = _Promise()

    def keep(self, task_id: str) -> None:
        """The append is done."""
        promise = self._open.pop(task_id, None)
        if promise is not None:
            promise.settled.set()

    def fail(self, task_id: str, why: str) -> None:
        """It could not be done, for now; nothing happens where none was promised."""
        promise = self._open.get(task_id)
        if promise is not None:
            promise.why_not = why
            promise.settled.set()

    async def kept(self, task_id: str | None = None) -> None:
        """Return once all that was told of that task, or of any (None), can be read; `StoreUnavailable`: not for now."""
        for promise in [promise for told, promise in self._open.items() if task_id in (None, told)]:
            await promise.settled.wait()
            if promise.why_not:
                raise StoreUnavailable(f"cannot read all of what was told already: {promise.why_not}")
