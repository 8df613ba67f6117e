"""What does a cockpit's file have for those who look through it? (each one a statement that only reads)"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from sandboxd.chain import Kept
from sandboxd.cockpit import audit, rows
from sandboxd.cockpit.record import Record, Sighting
from sandboxd.values import frozen

State = Literal["open", "closed"]
LISTED_MAX: Final = 200
HISTORY_MAX: Final = 500
KINDS: Final = ("observed", "malformed", "postponed")  # of tasks that ask, and are not asked about here

# A question that a rule may yet answer is nobody's to answer.
_OPEN: Final = "phase <> 'closed' AND (is_told = 1 OR phase <> 'open')"
_CLOSED: Final = "phase = 'closed'"


@frozen
class Listing:
    """Questions, and the number of the audit's last entry at that moment: what happens next has the numbers behind it."""

    records: Sequence[Record]
    sightings: Sequence[Sighting]
    number: int
    has_more: bool


@frozen
class Standing:
    """How many questions are open, by host, and how many tasks ask what is not asked here, by host and kind."""

    open: Mapping[str, int]
    unasked: Mapping[tuple[str, str], int]


def standing(connection: sqlite3.Connection) -> Standing:
    """What there is at this moment."""
    asked = connection.execute("SELECT host, count(*) FROM prompts WHERE phase <> 'closed' GROUP BY host")
    others = connection.execute("SELECT host, kind, count(*) FROM sightings WHERE gone_at_us IS NULL GROUP BY host, kind")
    return Standing(dict(asked), {(host, kind): count for host, kind, count in others})


def listed(
    connection: sqlite3.Connection, *, state: State | None, host: str | None, task_id: str | None, limit: int = LISTED_MAX
) -> Listing:
    """Questions, the newest first, at most `limit` of them."""
    of_state = {"open": _OPEN, "closed": _CLOSED, None: f"(({_OPEN}) OR {_CLOSED})"}[state]
    where = f"WHERE {of_state} AND (? IS NULL OR host = ?) AND (? IS NULL OR task_id = ?) ORDER BY number DESC LIMIT ?"
    found = rows.select(connection, where, host, host, task_id, task_id, limit + 1)
    return Listing(found[:limit], rows.sightings(connection), last_number(connection), len(found) > limit)


def find(connection: sqlite3.Connection, name: str) -> Sequence[Record]:
    """The questions of that number, or of that prompt id (each host may have one of it)."""
    if name.isascii() and name.isdigit() and len(name) < 16:
        return rows.select(connection, "WHERE number = ?", int(name))
    return rows.select(connection, "WHERE prompt_id = ? ORDER BY number", name.lower())


def history(connection: sqlite3.Connection, record: Record) -> Sequence[dict[str, Any]]:
    """What the audit says of a question, in order; of a longer one, its end."""
    found = connection.execute(
        "SELECT number, body, hash FROM audit_of_prompt JOIN audit USING (number) WHERE prompt_id = ? AND host = ?"
        " ORDER BY number DESC LIMIT ?",
        (record.prompt_id, record.place.host, HISTORY_MAX),
    ).fetchall()
    return [{"number": number, **json.loads(body), "hash": its_hash} for number, body, its_hash in reversed(found)]


def entries_after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[tuple[Kept, Record | None]]:
    """What happened behind that number, in order, each with its question as it stands now."""
    return [(kept, _question(connection, kept)) for kept in audit.after(connection, number, limit)]


def last_number(connection: sqlite3.Connection) -> int:
    """The number of the audit's last entry; 0: there is none."""
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM audit").fetchone()
    return int(number)


def _question(connection: sqlite3.Connection, kept: Kept) -> Record | None:
    body = json.loads(kept.body)
    return rows.find(connection, body["host"], body["prompt_id"]) if body["prompt_id"] else None
