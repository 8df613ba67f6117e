"""What is on record of who did what?

One row for each send, answer and cancel, refused ones too; it is never changed (a trigger sees to it) and goes only by its age.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from sandboxd.store.base import AuditEntry, AuditRecord
from sandboxd.store.times import from_us, key, to_us

_COLUMNS = "at_us, principal, door, action, instance, outcome, task, prompt, message"


def note(connection: sqlite3.Connection, entry: AuditEntry) -> None:
    """Put one on record."""
    texts = (entry.principal, entry.door, entry.action, entry.instance, entry.outcome)
    ids = (entry.task_id, entry.prompt_id, entry.message_id)
    connection.execute(
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
        (to_us(entry.at), *map(key, texts), *(None if text is None else key(text) for text in ids)),
    )


def after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[AuditRecord]:
    """The first `limit` records after that number, in order."""
    rows = connection.execute(f"SELECT number, {_COLUMNS} FROM audit WHERE number > ? ORDER BY number LIMIT ?", (number, limit))  # noqa: S608
    return [_record(row) for row in rows]


def last(connection: sqlite3.Connection, limit: int) -> Sequence[AuditRecord]:
    """The last `limit` records, in order."""
    rows = connection.execute(f"SELECT number, {_COLUMNS} FROM audit ORDER BY number DESC LIMIT ?", (limit,)).fetchall()  # noqa: S608
    return [_record(row) for row in reversed(rows)]


def forget(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` records from before then; how many went."""
    return connection.execute(
        "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at_us < ? ORDER BY number LIMIT ?)",
        (to_us(before), limit),
    ).rowcount


def _record(row: Sequence[object]) -> AuditRecord:
    number, at_us, principal, door, action, instance, outcome, task_id, prompt_id, message_id = row
    entry = AuditEntry(
        at=from_us(at_us),  # type: ignore[arg-type]  # the schema is STRICT
        principal=str(principal),
        door=str(door),
        action=action,  # type: ignore[arg-type]  # the schema checks it
        instance=str(instance),
        outcome=str(outcome),
        task_id=task_id,  # type: ignore[arg-type]
        prompt_id=prompt_id,  # type: ignore[arg-type]
        message_id=message_id,  # type: ignore[arg-type]
    )
    return AuditRecord(number, entry)  # type: ignore[arg-type]
