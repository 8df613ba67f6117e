"""Which statements keep a cockpit's questions? (each within a transaction of the caller's)"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from sandboxd.a2a.links import Links
from sandboxd.approvals.events import (
    Alert,
    Contested,
    Decided,
    Deliver,
    Effect,
    Event,
    Fence,
    Inquire,
    Mark,
    Misfit,
    Received,
    Taken,
    Tell,
    Undelivered,
    Voted,
)
from sandboxd.approvals.record import Approval
from sandboxd.approvals.routing import Principal
from sandboxd.approvals.timing import next_wake
from sandboxd.cockpit import audit
from sandboxd.cockpit.audit import Entry
from sandboxd.cockpit.codec import Wire, decode, decode_wire, encode, encode_wire, from_us, to_us
from sandboxd.cockpit.receipts.receipt import Receipt, What
from sandboxd.cockpit.record import News, Pending, Place, Record, Sighting

_RECORDS: Final = (
    "SELECT number, host, task_id, context_id, envelope, links, body,"
    " (SELECT json_group_array(json_array(what, how, said_at_us, at_us)) FROM receipts WHERE prompt = prompts.number)"
    " FROM prompts "
)
_UNSAID: Final = ("nothing", "repeated")  # nobody did anything, and nothing came of it
_SAYS_SOMETHING: Final = ("counted", "decided")


def find(connection: sqlite3.Connection, host: str, prompt_id: str) -> Record | None:
    """The question of that id on that host."""
    return next(iter(select(connection, "WHERE host = ? AND prompt_id = ?", host, prompt_id)), None)


def by_number(connection: sqlite3.Connection, number: int) -> Record:
    """The question of that number, which must be there."""
    (record,) = select(connection, "WHERE number = ?", number)
    return record


def unfinished(connection: sqlite3.Connection) -> Sequence[Record]:
    """Every question that is not closed, in the order in which they came."""
    return select(connection, "WHERE phase <> 'closed' ORDER BY number")


def of_task(connection: sqlite3.Connection, host: str, task_id: str) -> Sequence[Record]:
    """Every question of a task that is not closed."""
    return select(connection, "WHERE host = ? AND task_id = ? AND phase <> 'closed' ORDER BY number", host, task_id)


def due(connection: sqlite3.Connection, now: datetime, limit: int) -> Sequence[Record]:
    """Questions for which it is time, the longest overdue first."""
    return select(connection, "WHERE wake_at_us <= ? ORDER BY wake_at_us LIMIT ?", to_us(now), limit)


def next_due(connection: sqlite3.Connection) -> int | None:
    """When it is next time for something, in microseconds since 1970."""
    found: int | None = connection.execute("SELECT min(wake_at_us) FROM prompts WHERE wake_at_us IS NOT NULL").fetchone()[0]
    return found


def asked(connection: sqlite3.Connection, host: str, task_id: str) -> int:
    """How many questions a task has asked, also such as could not be asked here."""
    (prompts,) = connection.execute("SELECT count(*) FROM prompts WHERE host = ? AND task_id = ?", (host, task_id)).fetchone()
    others_sql = (
        "SELECT count(*) FROM sightings WHERE host = ? AND task_id = ? AND kind <> 'postponed'"  # that one is asked yet
    )
    (others,) = connection.execute(others_sql, (host, task_id)).fetchone()
    return int(prompts) + int(others)


def open_beside(connection: sqlite3.Connection, place: Place) -> tuple[int, int]:
    """How many questions of other tasks are not closed: of that host, and of all.

    A task asks one thing at a time: what it asked before is about to close, and takes no room from what it asks now.
    """
    of_host, in_all = connection.execute(
        "SELECT count(*) FILTER (WHERE host = ?1), count(*) FROM prompts"
        " WHERE phase <> 'closed' AND NOT (host = ?1 AND task_id = ?2)",
        (place.host, place.task_id),
    ).fetchone()
    return int(of_host), int(in_all)


def pending(connection: sqlite3.Connection) -> Sequence[Pending]:
    """Every call that is to be made."""
    rows = connection.execute("SELECT prompt, rev, kind, body FROM wires ORDER BY prompt").fetchall()
    return [Pending(by_number(connection, number), rev, decode_wire(kind, body)) for number, rev, kind, body in rows]


def insert(connection: sqlite3.Connection, place: Place, envelope: Any, links: Links, approval: Approval) -> Record:
    """A question that was never seen before."""
    cursor = connection.execute(
        "INSERT INTO prompts (host, prompt_id, task_id, context_id, envelope, links, rev, status, phase, step, asked_at_us,"
        " wake_at_us, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(place.host, approval.question.prompt_id, place.task_id, place.context_id),
            *(json.dumps(envelope, separators=(",", ":")), json.dumps(attrs.asdict(links))),
            *(approval.rev, approval.status, approval.phase, approval.step, to_us(approval.received_at)),
            *(_wake_us(approval), encode(approval)),
        ),
    )
    return Record(int(cursor.lastrowid or 0), place, envelope, links, approval)


def keep(
    connection: sqlite3.Connection,
    record: Record,
    event: Event,
    decided: Decided,
    *,
    now: datetime,
    done: int | None,
    lasted_ms: int | None = None,
) -> Record:
    """Everything that one decision changes: the record, the calls, the news, the audit.

    `done`: the revision of the call whose outcome the event is, and `lasted_ms` how long that took.
    """
    after = attrs.evolve(record, approval=decided.approval)
    if decided.approval != record.approval:
        connection.execute(
            "UPDATE prompts SET rev = ?, status = ?, phase = ?, step = ?, wake_at_us = ?, body = ? WHERE number = ?",
            (
                *(after.approval.rev, after.approval.status, after.approval.phase, after.approval.step),
                *(_wake_us(after.approval), encode(after.approval), record.number),
            ),
        )
    tell(connection, after, event, decided, now=now, done=done, lasted_ms=lasted_ms)
    if after.approval.status == "responded" and record.approval.phase != "closed" and not record.receipts:
        connection.execute("INSERT INTO receipts_awaited (prompt) VALUES (?)", (record.number,))
    return after


def tell(
    connection: sqlite3.Connection,
    record: Record,
    event: Event,
    decided: Decided,
    *,
    now: datetime,
    done: int | None = None,
    lasted_ms: int | None = None,
) -> None:
    """The calls, the news and the audit of a decision."""
    connection.execute(
        "DELETE FROM wires WHERE prompt = ? AND (rev = ? OR ?)", (record.number, done, decided.approval.phase == "closed")
    )
    for effect in decided.effects:
        if isinstance(effect, Deliver | Inquire | Fence):
            _set_wire(connection, record, effect)
        else:
            _add_news(connection, record, effect, now)
    for mark in decided.marks:
        if mark.outcome not in _UNSAID or _is_an_attempt(event):
            audit.append(connection, attrs.evolve(_entry(record, event, mark, now), lasted_ms=lasted_ms))


def untold(connection: sqlite3.Connection) -> Sequence[Record]:
    """Open questions for which neither a rule nor a person was looked for yet."""
    return select(connection, "WHERE phase = 'open' AND is_told = 0 ORDER BY number")


def tell_people(connection: sqlite3.Connection, number: int, now: datetime) -> None:
    """People are asked, once, if it is still open."""
    told = connection.execute("UPDATE prompts SET is_told = 1 WHERE number = ? AND phase = 'open' AND is_told = 0", (number,))
    if told.rowcount:
        record = by_number(connection, number)
        add_news(connection, record, now, "asked")
        place, prompt_id = record.place, record.prompt_id
        told_entry = Entry(now, place.host, prompt_id, place.task_id, place.context_id, "told", "asked", links=record.links)
        audit.append(connection, told_entry)


def news_after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[News]:
    """The first `limit` pieces of news behind that number, in order."""
    rows = connection.execute(
        "SELECT number, what, route, why, prompt FROM news WHERE number > ? ORDER BY number LIMIT ?", (number, limit)
    ).fetchall()
    return [News(number, what, route, why, by_number(connection, prompt)) for number, what, route, why, prompt in rows]


def drop_wires(connection: sqlite3.Connection) -> None:
    """Forget every call: whether one was made before a crash is not known, so each question says anew what it needs."""
    connection.execute("DELETE FROM wires")


def sight(
    connection: sqlite3.Connection,
    place: Place,
    *,
    kind: str,
    digest: str,
    text: str,
    why: str,
    links: Links,
    now: datetime,
) -> None:
    """A task that asks what cannot be asked here."""
    added = connection.execute(
        "INSERT INTO sightings (host, task_id, digest, kind, at_us, text, why) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (host, task_id, digest) DO UPDATE SET gone_at_us = NULL WHERE gone_at_us IS NOT NULL",
        (place.host, place.task_id, digest, kind, to_us(now), text, why),
    ).rowcount
    if added:
        seen = Entry(now, place.host, None, place.task_id, place.context_id, "seen", kind, why=why, links=links)
        audit.append(connection, seen)


def note(
    connection: sqlite3.Connection,
    record: Record,
    *,
    event: str,
    outcome: str,
    principal: Principal | None,
    channel: str,
    now: datetime,
    why: str = "",
) -> None:
    """What somebody did about a question, or was told of it, that changes nothing of it."""
    place = record.place
    entry = Entry(
        *(now, place.host, record.prompt_id, place.task_id, place.context_id, event, outcome),
        principal=principal.name if principal else None,
        channel=channel,
        why=why,
        rev=record.approval.rev,
        took_ms=audit.ms_between(record.approval.received_at, now),
        links=record.links,
    )
    audit.append(connection, entry)


def pass_by(connection: sqlite3.Connection, place: Place, digest: str, links: Links, now: datetime) -> None:
    """The task no longer asks what was sighted, but for what has that digest."""
    gone = connection.execute(
        "UPDATE sightings SET gone_at_us = ? WHERE host = ? AND task_id = ? AND digest <> ? AND gone_at_us IS NULL",
        (to_us(now), place.host, place.task_id, digest),
    ).rowcount
    if gone:
        audit.append(connection, Entry(now, place.host, None, place.task_id, place.context_id, "seen", "gone", links=links))


def sightings(connection: sqlite3.Connection) -> Sequence[Sighting]:
    """What stands there now and cannot be asked."""
    rows = connection.execute(
        "SELECT number, host, task_id, digest, kind, text, why FROM sightings WHERE gone_at_us IS NULL ORDER BY number"
    )
    return [Sighting(*row) for row in rows]


def _set_wire(connection: sqlite3.Connection, record: Record, wire: Wire) -> None:
    kind, body = encode_wire(wire)
    connection.execute(
        "INSERT INTO wires (prompt, rev, kind, body) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (prompt) DO UPDATE SET rev = excluded.rev, kind = excluded.kind, body = excluded.body",
        (record.number, record.approval.rev, kind, body),
    )


def _add_news(connection: sqlite3.Connection, record: Record, effect: Effect, now: datetime) -> None:
    match effect:
        case Tell(what=what, route=route):
            add_news(connection, record, now, what, route=route)
        case Alert(why=why):
            add_news(connection, record, now, "alert", why=why)
        case _:  # calls went the other way; `Ask` becomes news when no rule answers (`tell_people`)
            return


def add_news(
    connection: sqlite3.Connection, record: Record, now: datetime, what: str, *, route: str = "", why: str = ""
) -> None:
    """A piece of news of that question, for the channels."""
    connection.execute(
        "INSERT INTO news (prompt, rev, at_us, what, route, why) VALUES (?, ?, ?, ?, ?, ?)",
        (record.number, record.approval.rev, to_us(now), what, route, why),
    )


def _is_an_attempt(event: Event) -> bool:
    return hasattr(event, "principal") or (hasattr(event, "message_id") and type(event).__name__ != "Learnt")


def _entry(record: Record, event: Event, mark: Mark, now: datetime) -> Entry:
    approval, payload = record.approval, None
    principal, channel = _who(event, approval)
    if isinstance(event, Voted) and mark.outcome in _SAYS_SOMETHING and approval.terms.payload_class == "public":
        payload = json.loads(event.payload.body) if event.payload.body and not event.payload.is_secret else None
    return Entry(
        at=now,
        host=record.place.host,
        prompt_id=record.prompt_id,
        task_id=record.place.task_id,
        context_id=record.place.context_id,
        event=type(event).__name__.lower(),
        outcome=mark.outcome,
        principal=principal,
        channel=channel,
        why=mark.why,
        rev=approval.rev,
        took_ms=None if isinstance(event, Received) else audit.ms_between(approval.received_at, now),
        note=getattr(event, "note", ""),
        payload_class=approval.terms.payload_class if isinstance(event, Voted) else None,
        payload=payload,
        links=record.links,
    )


def _who(event: Event, approval: Approval) -> tuple[str | None, str | None]:
    """Who did it, by which channel; behind an attempt to deliver stand those whose answer it is."""
    said: Principal | None = getattr(event, "principal", None)
    if said is not None:
        return said.name, getattr(event, "channel", None)
    if not isinstance(event, Taken | Misfit | Contested | Undelivered) or approval.verdict is None:
        return None, None
    votes = [vote for vote in approval.votes if vote.principal.person in approval.verdict.persons]
    names = ", ".join(vote.principal.name for vote in votes) or ", ".join(approval.verdict.persons)
    return names, ", ".join(dict.fromkeys(vote.channel for vote in votes)) or None


def _wake_us(approval: Approval) -> int | None:
    wake = next_wake(approval)
    return None if wake is None else to_us(wake)


def select(connection: sqlite3.Connection, which: str, *values: str | int | None) -> Sequence[Record]:
    """The questions that the end of a statement, `WHERE …`, picks; it is ours, never somebody's words."""
    return [_record(row) for row in connection.execute(_RECORDS + which, values)]


def _record(row: Sequence[Any]) -> Record:  # the table is STRICT, so each column has its type
    number, host, task_id, context_id, envelope, links, body, receipts = row
    known = tuple(_receipt(*one) for one in json.loads(receipts))
    place = Place(host, task_id, context_id)
    return Record(number, place, json.loads(envelope), Links(**json.loads(links)), decode(body), known)


def _receipt(what: What, how: str, said_at_us: int | None, at_us: int) -> Receipt:
    return Receipt(what, how, None if said_at_us is None else from_us(said_at_us), from_us(at_us))
