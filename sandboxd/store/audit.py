"""What is on record of who did what?

One row for each send, answer, cancel and change of push notifications, refused ones too; it is never changed (a trigger sees
to it) and goes only by its age.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sandboxd.store.base import AuditEntry, AuditRecord
from sandboxd.store.times import from_us, key, to_us

_RECORDS: Final = (
    "SELECT number, at_us, principal, door, action, instance, outcome, task, prompt, message, config, target FROM audit "
)


def note(connection: sqlite3.Connection, entry: AuditEntry) -> None:
    """Put one on record."""
    texts = (entry.principal, entry.door, entry.action, entry.instance, entry.outcome)
    ids = (entry.task_id, entry.prompt_id, entry.message_id, entry.config_id, entry.target)
    connection.execute(
        "INSERT INTO audit (at_us, principal, door, action, instance, outcome, task, prompt, message, config, target)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (to_us(entry.at), *map(key, texts), *(None if text is None else key(text) for text in ids)),
    )


def after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[AuditRecord]:
    """The first `limit` records after that number, in order."""
    rows = connection.execute(_RECORDS + "WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
    return [_record(row) for row in rows]


def last(connection: sqlite3.Connection, limit: int) -> Sequence[AuditRecord]:
    """The last `limit` records, in order."""
    rows = connection.execute(_RECORDS + "ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
    return [_record(row) for row in reversed(rows)]


def forget(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` records from before then; how many went."""
    return connection.execute(
        "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at_us < ? ORDER BY number LIMIT ?)",
        (to_us(before), limit),
    ).rowcount


def _record(row: Sequence[Any]) -> AuditRecord:  # the table is STRICT, so each column has its type
    number, at_us, principal, door, action, instance, outcome, task_id, prompt_id, message_id, config_id, target = row
    entry = AuditEntry(
        at=from_us(at_us),
        principal=principal,
        door=door,
        action=action,
        instance=instance,
        outcome=outcome,
        task_id=task_id,
        prompt_id=prompt_id,
        message_id=message_id,
        config_id=config_id,
        target=target,
    )
    return AuditRecord(number, entry)
