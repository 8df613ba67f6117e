"""Which statements keep what each channel has told and heard? (each within a transaction of the caller's)"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sandboxd.cockpit import audit, rows
from sandboxd.cockpit.audit import Entry
from sandboxd.cockpit.codec import from_us, to_us
from sandboxd.cockpit.record import News, Record
from sandboxd.values import frozen

LETTERS_MAX: Final = 1000


@frozen
class Standing:
    """How far a channel has come: `news` is the last piece that is settled, `tries` and `retry_at` are about the next one."""

    news: int
    tries: int = 0
    retry_at: datetime | None = None


def standing(connection: sqlite3.Connection, channel: str) -> Standing:
    """Where the channel stands; a new one begins with the questions that wait now, and not with old stories."""
    row = connection.execute("SELECT news, tries, retry_at_us FROM channel_cursors WHERE channel = ?", (channel,)).fetchone()
    if row is not None:
        return Standing(row[0], row[1], None if row[2] is None else from_us(row[2]))
    (first,) = connection.execute(
        "SELECT min(number) FROM news WHERE prompt IN (SELECT number FROM prompts WHERE phase <> 'closed')"
    ).fetchone()
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM news").fetchone()
    return Standing(int(last) if first is None else int(first) - 1)


def move(connection: sqlite3.Connection, channel: str, to: Standing) -> None:
    """The channel has come so far."""
    connection.execute(
        "INSERT INTO channel_cursors (channel, news, tries, retry_at_us) VALUES (?, ?, ?, ?) ON CONFLICT (channel)"
        " DO UPDATE SET news = excluded.news, tries = excluded.tries, retry_at_us = excluded.retry_at_us",
        (channel, to.news, to.tries, None if to.retry_at is None else to_us(to.retry_at)),
    )


def told(connection: sqlite3.Connection, channel: str, news: News, *, outcome: str, why: str, now: datetime) -> None:
    """A piece of news is settled there: `delivered`, or `given-up`, which leaves a letter."""
    record = news.record
    if outcome != "delivered":
        values = (channel, news.number, to_us(now), why)
        connection.execute("INSERT INTO channel_letters (channel, news, at_us, why) VALUES (?, ?, ?, ?)", values)
        connection.execute(
            "DELETE FROM channel_letters WHERE number <= (SELECT max(number) FROM channel_letters) - ?", (LETTERS_MAX,)
        )
    move(connection, channel, Standing(news.number))
    place = record.place
    entry = Entry(
        now,
        place.host,
        record.prompt_id,
        place.task_id,
        place.context_id,
        "told",
        outcome,
        channel=channel,
        why=f"{news.what}: {why}" if why else news.what,
        links=record.links,
    )
    audit.append(connection, entry)


def was_escalated(connection: sqlite3.Connection, prompt: int, routes: Sequence[str]) -> bool:
    """Whether one of these routes was told of the question."""
    told = connection.execute("SELECT route FROM news WHERE prompt = ? AND what = 'escalation'", (prompt,))
    return any(route in routes for (route,) in told)


def was_heard(connection: sqlite3.Connection, channel: str, answer_id: str) -> bool:
    """Whether a signed answer of that id was taken before."""
    row = connection.execute("SELECT 1 FROM channel_answers WHERE channel = ? AND id = ?", (channel, answer_id)).fetchone()
    return row is not None


def hear(connection: sqlite3.Connection, channel: str, answer_id: str, now: datetime, *, keep: timedelta) -> None:
    """A signed answer of that id was taken; ids that are older than `keep` are too old to be sent again."""
    connection.execute("DELETE FROM channel_answers WHERE at_us < ?", (to_us(now - keep),))
    connection.execute("INSERT OR IGNORE INTO channel_answers VALUES (?, ?, ?)", (channel, answer_id, to_us(now)))


def find(connection: sqlite3.Connection, host: str | None, prompt_id: str) -> Sequence[int]:
    """The numbers of the questions of that id; each host may have one."""
    found = connection.execute(
        "SELECT number FROM prompts WHERE prompt_id = ? AND (? IS NULL OR host = ?)", (prompt_id.lower(), host, host)
    ).fetchall()
    return [int(number) for (number,) in found]


def by_number(connection: sqlite3.Connection, number: int) -> Record | None:
    """The question of that number, if there is one."""
    known = connection.execute("SELECT 1 FROM prompts WHERE number = ?", (number,)).fetchone()
    return rows.by_number(connection, number) if known else None
