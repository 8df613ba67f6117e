"""Who answered what, when, by which way, and what came of it?

Approval workflow, Audit and provenance: one entry for every attempt and every turn of a question. Entries are only ever
appended; each one's hash covers its text and the hash before it, so an entry that was changed, taken out or put in between
breaks the chain at its place. What the chain cannot show is that its end was cut off: keep a `number:hash` elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.canonical import canonical
from sandboxd.a2a.wire import rfc3339

FIRST: Final = "0" * 64  # what stands before the first entry
SCHEMA: Final = "sandboxd.approval-audit/1"
WHY_MAX_CHARS: Final = 500


@attrs.frozen
class Links:
    """What else a question belongs to, as far as this cockpit knows; kept here, and in no envelope."""

    mission: str | None = None
    flow: str | None = None
    provider: str | None = None
    sandbox: str | None = None
    issue: str | None = None
    trace: str | None = None


NO_LINKS: Final = Links()


@attrs.frozen
class Entry:
    """One thing that happened.

    `note`: what somebody wrote beside it, for this record alone. `payload` None: none, or one that is not shown; `took_ms`:
    since the question came; `lasted_ms`: what was said to the host, till its reply.
    """

    at: datetime
    host: str
    prompt_id: str | None
    task_id: str
    context_id: str
    event: str
    outcome: str
    principal: str | None = None
    channel: str | None = None
    why: str = ""
    note: str = ""
    rev: int | None = None
    took_ms: int | None = None
    lasted_ms: int | None = None
    payload_class: str | None = None
    payload: Any = None
    links: Links = NO_LINKS


@attrs.frozen
class Kept:
    """An entry as it stands in the record."""

    number: int
    body: str
    previous: str
    hash: str

    def as_json(self) -> dict[str, Any]:
        """One object: the entry's own fields, its number and its place in the chain."""
        fields: dict[str, Any] = json.loads(self.body)
        return {"schema": SCHEMA, "number": self.number, **fields, "previous": self.previous, "hash": self.hash}


class Broken(Exception):
    """The chain does not hold; the message says where, and how."""


def spell(entry: Entry) -> str:
    """The entry's text: canonical JSON, every field written out."""
    fields = attrs.asdict(entry)
    fields["at"] = rfc3339(entry.at)
    fields["why"] = entry.why[:WHY_MAX_CHARS]
    fields["note"] = entry.note[:WHY_MAX_CHARS]
    return canonical(fields).decode()


def link(number: int, body: str, previous: str) -> str:
    """The hash of an entry behind another one."""
    return hashlib.sha256(f"{number}\n{previous}\n{body}".encode()).hexdigest()


def append(connection: sqlite3.Connection, entry: Entry) -> int:
    """Put one at the end, within the caller's transaction; its number."""
    last = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone() or (0, FIRST)
    number, previous = int(last[0]) + 1, str(last[1])
    body = spell(entry)
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", (number, body, previous, link(number, body, previous)))
    if entry.prompt_id is not None:
        connection.execute("INSERT INTO audit_of_prompt VALUES (?, ?, ?)", (entry.prompt_id, entry.host, number))
    return number


def after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[Kept]:
    """The first `limit` entries behind that number, in order."""
    rows = connection.execute("SELECT * FROM audit WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
    return [Kept(*row) for row in rows]


def last(connection: sqlite3.Connection, limit: int) -> Sequence[Kept]:
    """The last `limit` entries, in order."""
    rows = connection.execute("SELECT * FROM audit ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
    return [Kept(*row) for row in reversed(rows)]


def read(lines: Iterable[str]) -> Iterator[Kept]:
    """The entries of an export, one a line; `Broken` where a line is none."""
    for count, line in enumerate(lines, start=1):
        try:
            fields: dict[str, Any] = json.loads(line)
            number, previous, hashed = fields.pop("number"), fields.pop("previous"), fields.pop("hash")
            if fields.pop("schema") != SCHEMA:
                raise ValueError
            yield Kept(int(number), canonical(fields).decode(), str(previous), str(hashed))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Broken(f"line {count} is no entry of an approval audit") from None


def verify(entries: Iterable[Kept], anchors: Mapping[int, str] | None = None) -> Kept | None:
    """Walk the chain from its first entry to its last, which is returned; `Broken`.

    `anchors`: numbers with the hashes that were kept elsewhere; each must be there.
    """
    known = dict(anchors or {})
    before: Kept | None = None
    for entry in entries:
        number, previous = (1, FIRST) if before is None else (before.number + 1, before.hash)
        if entry.number != number:
            raise Broken(f"entry {number} is missing: entry {entry.number} stands in its place")
        if entry.previous != previous:
            raise Broken(f"entry {number} does not follow the one before it")
        if link(number, entry.body, previous) != entry.hash:
            raise Broken(f"entry {number} was changed")
        if known.pop(number, entry.hash) != entry.hash:
            raise Broken(f"entry {number} is another one than the one that was kept elsewhere")
        before = entry
    if known:
        raise Broken(f"entry {min(known)} is missing: the record ends at {before.number if before else 0}")
    return before
