"""Who answered what, when, by which way, and what came of it?

Approval workflow, Audit and provenance: one entry for every attempt and every turn of a question. Entries are only ever
appended, each to the chain (`sandboxd.chain`) of those before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.canonical import canonical
from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.a2a.wire import rfc3339
from sandboxd.chain import START, Kept, Spot, follow
from sandboxd.values import frozen

SCHEMA: Final = "sandboxd.approval-audit/1"
WHY_MAX_CHARS: Final = 500


@frozen
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


def ms_between(began: datetime, now: datetime) -> int:
    """How long that took; 0 where the clock was set back meanwhile."""
    return max(int((now - began).total_seconds() * 1000), 0)


def spell(entry: Entry) -> str:
    """The entry's text: canonical JSON, every field written out."""
    fields = attrs.asdict(entry)
    fields["at"] = rfc3339(entry.at)
    fields["why"] = entry.why[:WHY_MAX_CHARS]
    fields["note"] = entry.note[:WHY_MAX_CHARS]
    return canonical(fields).decode()


def append(connection: sqlite3.Connection, entry: Entry) -> int:
    """Put one at the end, within the caller's transaction; its number."""
    last = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    kept = follow(START if last is None else Spot(*last), spell(entry))
    connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", attrs.astuple(kept))
    if entry.prompt_id is not None:
        connection.execute("INSERT INTO audit_of_prompt VALUES (?, ?, ?)", (entry.prompt_id, entry.host, kept.number))
    return kept.number


def after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[Kept]:
    """The first `limit` entries behind that number, in order."""
    rows = connection.execute("SELECT * FROM audit WHERE number > ? ORDER BY number LIMIT ?", (number, limit))
    return [Kept(*row) for row in rows]


def last(connection: sqlite3.Connection, limit: int) -> Sequence[Kept]:
    """The last `limit` entries, in order."""
    rows = connection.execute("SELECT * FROM audit ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
    return [Kept(*row) for row in reversed(rows)]
