"""What is on record of who did what?

One row for each send, answer, cancel and change of push notifications, refused ones too. It is never changed (a trigger sees
to it), it goes only by its age and from the beginning, and each row's hash covers it and the hash of the row before it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.jsontext import canonical_json
from sandboxd.a2a.links import NO_LINKS
from sandboxd.a2a.wire import rfc3339
from sandboxd.chain import FIRST, Kept, Spot, follow
from sandboxd.store.base import AuditBegins, AuditEntry, AuditPage
from sandboxd.store.times import from_us, key, to_us

_ROWS: Final = (
    "SELECT number, previous, hash, at_us, principal, door, action, instance, outcome, task, prompt, message, config, target,"
    " links FROM audit "
)
_NAMES: Final = ("principal", "door", "action", "instance", "outcome")
_IDS: Final = ("task_id", "prompt_id", "message_id", "config_id", "target")


def note(connection: sqlite3.Connection, entry: AuditEntry) -> None:
    """Put one on record, behind the last one."""
    at_us = to_us(entry.at) // 1000 * 1000  # milliseconds, as it is shown: the hash is of what can be shown
    values = (at_us, *map(key, _texts(entry)), *(None if text is None else key(text) for text in _ids(entry)), _links(entry))
    kept = follow(_end(connection), _body(values))
    connection.execute(
        "INSERT INTO audit (number, previous, hash, at_us, principal, door, action, instance, outcome, task, prompt, message,"
        " config, target, links) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (kept.number, kept.previous, kept.hash, *values),
    )


def after(connection: sqlite3.Connection, number: int, limit: int) -> AuditPage:
    """The first `limit` records after that number, in order, and behind which one the record begins."""
    begins = connection.execute("SELECT number, hash, older_to FROM audit_begins").fetchone()
    rows = connection.execute(_ROWS + "WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
    return AuditPage(AuditBegins(Spot(begins[0], begins[1]), begins[2]), tuple(map(_kept, rows)))


def last(connection: sqlite3.Connection, limit: int) -> Sequence[Kept]:
    """The last `limit` records, in order."""
    rows = connection.execute(_ROWS + "ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
    return [_kept(row) for row in reversed(rows)]


def forget(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` records from before then; how many went.

    One that is not so old keeps all that follow it, whatever the clock said then: a chain has no holes.
    """
    before_us, went = to_us(before), None
    rows = connection.execute("SELECT number, at_us, hash FROM audit ORDER BY number LIMIT ?", (limit,)).fetchall()
    for number, at_us, hashed in rows:
        if at_us >= before_us:
            break
        went = (number, hashed or FIRST)
    if went is None:
        return 0
    connection.execute("UPDATE audit_begins SET number = ?, hash = ?", went)
    return connection.execute("DELETE FROM audit WHERE number <= ?", (went[0],)).rowcount


def _end(connection: sqlite3.Connection) -> Spot:
    """Behind what the next record stands."""
    row = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    if row is not None and row[1] is not None:
        return Spot(*row)
    number, hashed, older_to = connection.execute("SELECT number, hash, older_to FROM audit_begins").fetchone()
    return Spot(number, hashed) if number > older_to else Spot(older_to, FIRST)


def _texts(entry: AuditEntry) -> Sequence[str]:
    return [getattr(entry, name) for name in _NAMES]


def _ids(entry: AuditEntry) -> Sequence[str | None]:
    return [getattr(entry, name) for name in _IDS]


def _links(entry: AuditEntry) -> str | None:
    """What it belongs to, as JSON; ids alone, so every spelling of it is the canonical one."""
    return None if entry.links == NO_LINKS else canonical_json(_said(attrs.asdict(entry.links))).decode()


def _body(values: Sequence[Any]) -> str:
    """The record's text: its fields, those that it has none of left out. Flat, of texts alone: so it is RFC 8785's spelling."""
    at_us, *texts, links = values
    at = rfc3339(from_us(at_us)) if at_us % 1000 == 0 else from_us(at_us).isoformat()  # the latter was not written here
    fields = {"at": at, **dict(zip((*_NAMES, *_IDS), texts, strict=True)), "links": json.loads(links) if links else None}
    return canonical_json(_said(fields)).decode()


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _kept(row: Sequence[Any]) -> Kept:  # the table is STRICT, so each column has its type
    number, previous, hashed, *values = row
    return Kept(number, _body(values), previous or "", hashed or "")
