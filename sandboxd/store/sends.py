"""What is on record of the messages that were sent under idempotency/v1?

`note_all` runs inside the transactions of `changes`: a message and what it did become visible together, so a crash cannot come
between a task and the knowledge of which message made it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sandboxd.db import rows
from sandboxd.store.base import SendKey, SendRecord, Told
from sandboxd.store.times import key, to_us

_FIND: Final = (
    "SELECT hash, task, seq, door, status, headers, body, at_us FROM sends"
    " WHERE principal = ? AND instance = ? AND message_id = ?"
)
_DROP: Final = "DELETE FROM sends WHERE principal = ? AND instance = ? AND message_id = ?"
_NOTE: Final = (
    "UPDATE sends SET task = new.column1, seq = new.column2 FROM (VALUES {rows}) AS new"
    " WHERE principal = new.column3 AND instance = new.column4 AND message_id = new.column5"
    " AND sends.task IS NULL AND status IS NULL"
)
_SETTLE: Final = (
    "UPDATE sends SET door = ?, status = ?, headers = ?, body = ?"
    " WHERE principal = ? AND instance = ? AND message_id = ? AND task IS NULL AND status IS NULL"
)


def reserve(
    connection: sqlite3.Connection, send: SendKey, digest: str, *, now: datetime, ttl_s: float, max_entries: int
) -> SendRecord | None:
    """The record of that message; None: there was none within the time to live, and now there is a new one."""
    row = connection.execute(_FIND, _key(send)).fetchone()
    if row is not None and row[-1] > to_us(now - timedelta(seconds=ttl_s)):
        found, task_id, seq, door, status, headers, body, _ = row
        told = None if status is None else Told(door, status, tuple((name, value) for name, value in json.loads(headers)), body)
        return SendRecord(found, task_id, seq, told)
    connection.execute(_DROP, _key(send))
    cursor = connection.execute(
        "INSERT INTO sends (principal, instance, message_id, hash, at_us) VALUES (?, ?, ?, ?, ?)",
        (*_key(send), digest, to_us(now)),
    )
    assert cursor.lastrowid is not None
    # Numbers are never used twice, so at most `max_entries` rows are left, and no count is needed.
    connection.execute("DELETE FROM sends WHERE number <= ?", (cursor.lastrowid - max_entries,))
    return None


def note_all(connection: sqlite3.Connection, sent: Sequence[tuple[SendKey, str, int]]) -> None:
    """Each message led to that event of that task, if anybody asked to remember it; of equal ones the first did."""
    first = {send: (task_id, seq, *_key(send)) for send, task_id, seq in reversed(sent)}
    rows.run(connection, _NOTE, list(first.values()))


def settle(connection: sqlite3.Connection, send: SendKey, told: Told) -> None:
    """The message was refused so."""
    connection.execute(
        _SETTLE,
        (told.door, told.status, json.dumps(told.headers), told.body, *_key(send)),
    )


def forget(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete the oldest records from before then."""
    return connection.execute(
        "DELETE FROM sends WHERE number IN (SELECT number FROM sends WHERE at_us <= ? ORDER BY at_us LIMIT ?)",
        (to_us(before), limit),
    ).rowcount


def _key(send: SendKey) -> tuple[str, str, str]:
    return key(send.principal), send.instance, key(send.message_id)
