"""Which statements keep a cockpit's missions? (each within a transaction of the caller's)

A question and its mission change in one transaction: `question_moved` is called by whatever writes a question.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sandboxd.approvals.record import Approval
from sandboxd.cockpit import audit
from sandboxd.cockpit.audit import Entry
from sandboxd.cockpit.codec import decode_value, encode_value, from_us, to_us
from sandboxd.cockpit.missions.mission import Mission, Standing
from sandboxd.cockpit.missions.steps import Asked, Event, decide, due
from sandboxd.cockpit.record import Place
from sandboxd.values import frozen

_SELECT: Final = "SELECT number, body FROM missions "


@frozen
class By:
    """Who did it, by which account and channel."""

    principal: str
    channel: str


@frozen
class Kept:
    """A mission as it stands in the record."""

    number: int
    mission: Mission


@frozen
class MissionNews:
    """A change of state; the mission is as it stands now."""

    number: int
    at: datetime
    rev: int
    standing: Standing
    kept: Kept


def insert(connection: sqlite3.Connection, mission: Mission, by: By, now: datetime) -> Kept:
    """A mission that was just started."""
    cursor = connection.execute(
        "INSERT INTO missions (mission_id, host, task_id, rev, state, is_over, body) VALUES (?, ?, ?, ?, ?, 0, ?)",
        (
            *(mission.mission_id, mission.order.host, mission.task_id, mission.rev, mission.standing.state),
            encode_value(mission),
        ),
    )
    kept = Kept(int(cursor.lastrowid or 0), mission)
    _tell(connection, kept, "mission-started", by, now)
    return kept


def hear(
    connection: sqlite3.Connection, kept: Kept, event: Event, now: datetime, *, by: By | None = None, tries_max: int
) -> Kept:
    """An event about a mission as it stands in this transaction."""
    before = by_number(connection, kept.number)
    mission = decide(before.mission, event, now, tries_max=tries_max)
    after = Kept(before.number, mission)
    if mission != before.mission:
        connection.execute(
            "UPDATE missions SET task_id = ?, rev = ?, state = ?, is_over = ?, body = ? WHERE number = ?",
            (
                *(mission.task_id, mission.rev, mission.standing.state),
                *(mission.standing.is_final and due(mission) is None, encode_value(mission), before.number),
            ),
        )
    if by is not None or mission.standing != before.mission.standing:
        _tell(connection, after, f"mission-{type(event).__name__.lower()}", by, now)
    return after


def question_moved(connection: sqlite3.Connection, place: Place, number: int, approval: Approval, now: datetime) -> None:
    """A question is new, or stands otherwise than before: so may the mission whose task asks it."""
    kept = of_place(connection, place)
    if kept is not None:
        hear(connection, kept, Asked(number, approval), now, tries_max=1)  # no question spends a try


def of_place(connection: sqlite3.Connection, place: Place) -> Kept | None:
    """The mission of a task: by the context that it was started in, or by the task that its host has made of it."""
    return next(
        iter(
            _select(
                connection,
                "WHERE (mission_id = ? AND host = ?) OR (host = ? AND task_id = ?) LIMIT 1",
                *(place.context_id, place.host, place.host, place.task_id),
            )
        ),
        None,
    )


def by_number(connection: sqlite3.Connection, number: int) -> Kept:
    """The mission of that number, which must be there."""
    (kept,) = _select(connection, "WHERE number = ?", number)
    return kept


def find(connection: sqlite3.Connection, name: str, limit: int) -> Sequence[Kept]:
    """The mission of that number; where there is none, the missions whose id begins so."""
    if name.isascii() and name.isdigit() and len(name) < 12:
        found = _select(connection, "WHERE number = ?", int(name))
        if found:  # one id in forty begins with eight digits
            return found
    # No LIKE: `_` and `%` are no wildcards here.
    return _select(connection, "WHERE substr(mission_id, 1, ?) = ? ORDER BY number LIMIT ?", len(name), name, limit)


def going_on(connection: sqlite3.Connection) -> Sequence[Kept]:
    """Every mission about which something may be to be done, in their order."""
    return _select(connection, "WHERE is_over = 0 ORDER BY number")


def ids_to_watch(connection: sqlite3.Connection) -> Sequence[str]:
    """The missions of which a host may show a task that is not known here yet, or that goes on."""
    return [row[0] for row in connection.execute("SELECT mission_id FROM missions WHERE is_over = 0 OR task_id IS NULL")]


def newest(connection: sqlite3.Connection, limit: int, before: int | None) -> Sequence[Kept]:
    """The last `limit` missions before that number, the newest first."""
    return _select(connection, "WHERE ? IS NULL OR number < ? ORDER BY number DESC LIMIT ?", before, before, limit)


def news_after(connection: sqlite3.Connection, number: int, limit: int) -> Sequence[MissionNews]:
    """The first `limit` changes of state behind that number, in order."""
    rows = connection.execute(
        "SELECT number, at_us, rev, state, reason, way_out, mission FROM mission_news WHERE number > ? ORDER BY number LIMIT ?",
        (number, limit),
    ).fetchall()
    return [
        MissionNews(number, from_us(at_us), rev, Standing(state, reason, way_out), by_number(connection, mission))
        for number, at_us, rev, state, reason, way_out, mission in rows
    ]


def _tell(connection: sqlite3.Connection, kept: Kept, what: str, by: By | None, now: datetime) -> None:
    mission, standing = kept.mission, kept.mission.standing
    connection.execute(
        "INSERT INTO mission_news (mission, rev, at_us, state, reason, way_out) VALUES (?, ?, ?, ?, ?, ?)",
        (kept.number, mission.rev, to_us(now), standing.state, standing.reason, standing.way_out),
    )
    entry = Entry(
        at=now,
        host=mission.order.host,
        prompt_id=None,
        task_id=mission.task_id or "",
        context_id=mission.mission_id,
        event=what,
        outcome=standing.state,
        principal=by.principal if by else None,
        channel=by.channel if by else None,
        why=standing.reason,
        rev=mission.rev,
        took_ms=audit.ms_between(mission.started_at, now),
        links=mission.links,
    )
    audit.append(connection, entry)


def _select(connection: sqlite3.Connection, which: str, *values: str | int | None) -> Sequence[Kept]:
    return [Kept(number, decode_value(body, Mission)) for number, body in connection.execute(_SELECT + which, values)]
