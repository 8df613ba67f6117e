"""What is on record of who did what?

One row for each send, answer, cancel and change of push notifications, refused ones too. It is never changed (a trigger sees
to it), it goes only by its age and from the beginning, and each row's hash covers it and the hash of the row before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from json.encoder import encode_basestring
from typing import Any, Final

import attrs

from sandboxd.a2a.jsontext import canonical_json
from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.a2a.wire import rfc3339
from sandboxd.chain import FIRST, Kept, Spot, follow
from sandboxd.db import rows
from sandboxd.store.base import AuditBegins, AuditEntry, AuditPage
from sandboxd.store.times import from_us, key, to_us

_ROWS: Final = (
    "SELECT number, previous, hash, at_us, principal, door, action, instance, outcome, task, prompt, message, config, target,"
    " links FROM audit "
)
_text = encode_basestring  # escapes exactly what RFC 8785 §3.2.2.2 does


def note_all(connection: sqlite3.Connection, entries: Sequence[AuditEntry]) -> None:
    """Put them on record in their order, behind the last one."""
    if not entries:
        return
    spot, made = _end(connection), []
    for entry in entries:
        values = _values(entry)
        kept = follow(spot, _body(values))
        made.append((kept.number, kept.previous, kept.hash, *values))
        spot = kept.spot
    rows.run(
        connection,
        "INSERT INTO audit (number, previous, hash, at_us, principal, door, action, instance, outcome, task, prompt, message,"
        " config, target, links) VALUES {rows}",
        made,
    )


def after(connection: sqlite3.Connection, number: int, limit: int) -> AuditPage:
    """The first `limit` records after that number, in order, and behind which one the record begins."""
    begins = connection.execute("SELECT number, hash, older_to FROM audit_begins").fetchone()
    found = connection.execute(_ROWS + "WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
    return AuditPage(AuditBegins(Spot(begins[0], begins[1]), begins[2]), tuple(map(_kept, found)))


def last(connection: sqlite3.Connection, limit: int) -> Sequence[Kept]:
    """The last `limit` records, in order."""
    found = connection.execute(_ROWS + "ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
    return [_kept(row) for row in reversed(found)]


def forget(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` records from before then; how many went.

    One that is not so old keeps all that follow it, whatever the clock said then: a chain has no holes.
    """
    before_us, went = to_us(before), None
    oldest = connection.execute("SELECT number, at_us, hash FROM audit ORDER BY number LIMIT ?", (limit,)).fetchall()
    for number, at_us, hashed in oldest:
        if at_us >= before_us:
            break
        went = (number, hashed or FIRST)
    if went is None:
        return 0
    connection.execute("UPDATE audit_begins SET number = ?, hash = ?", went)
    return connection.execute("DELETE FROM audit WHERE number <= ?", (went[0],)).rowcount


def _values(entry: AuditEntry) -> tuple[Any, ...]:
    at_us = to_us(entry.at) // 1000 * 1000  # milliseconds, as it is shown: the hash is of what can be shown
    texts = (entry.principal, entry.door, entry.action, entry.instance, entry.outcome)
    ids = (entry.task_id, entry.prompt_id, entry.message_id, entry.config_id, entry.target)
    return (at_us, *map(key, texts), *(None if text is None else key(text) for text in ids), _links(entry.links))


def _end(connection: sqlite3.Connection) -> Spot:
    """Behind what the next record stands."""
    row = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    if row is not None and row[1] is not None:
        return Spot(*row)
    number, hashed, older_to = connection.execute("SELECT number, hash, older_to FROM audit_begins").fetchone()
    return Spot(number, hashed) if number > older_to else Spot(older_to, FIRST)


def _links(links: Links) -> str | None:
    """What it belongs to, as JSON; ids alone, so every spelling of it is the canonical one."""
    if links is NO_LINKS or links == NO_LINKS:
        return None
    return canonical_json({name: value for name, value in attrs.asdict(links).items() if value is not None}).decode()


def _body(values: Sequence[Any]) -> str:
    """The record's text: its fields in RFC 8785's spelling, those that it has none of left out.

    Put together by hand, for it stands in the way of every send: a third of the time that an encoder takes.
    """
    at_us, principal, door, action, instance, outcome, task_id, prompt_id, message_id, config_id, target, links = values
    at = rfc3339(from_us(at_us)) if at_us % 1000 == 0 else from_us(at_us).isoformat()  # the latter was not written here
    fields = [f'"action":{_text(action)},"at":"{at}"']
    if config_id is not None:
        fields.append(f'"config_id":{_text(config_id)}')
    fields.append(f'"door":{_text(door)},"instance":{_text(instance)}')
    if links is not None:
        fields.append(f'"links":{links}')
    if message_id is not None:
        fields.append(f'"message_id":{_text(message_id)}')
    fields.append(f'"outcome":{_text(outcome)},"principal":{_text(principal)}')
    if prompt_id is not None:
        fields.append(f'"prompt_id":{_text(prompt_id)}')
    if target is not None:
        fields.append(f'"target":{_text(target)}')
    if task_id is not None:
        fields.append(f'"task_id":{_text(task_id)}')
    return "{" + ",".join(fields) + "}"


def _kept(row: Sequence[Any]) -> Kept:  # the table is STRICT, so each column has its type
    number, previous, hashed, *values = row
    return Kept(number, _body(values), previous or "", hashed or "")
