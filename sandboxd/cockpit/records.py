"""How does a cockpit keep its questions, so that a kill at any moment loses and doubles nothing?

Every event is one transaction: the record is read, the reducer decides, and the record, the calls to be made, the news for
people and the audit are written together; only then is anybody told. The clock is read inside the transaction, once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from sandboxd.a2a.links import Links
from sandboxd.approvals.events import Event, Received, Restarted, Ticked
from sandboxd.approvals.reducer import begin, decide
from sandboxd.approvals.routing import Principal
from sandboxd.chain import Kept
from sandboxd.cockpit import audit, rows
from sandboxd.cockpit.codec import from_us
from sandboxd.cockpit.missions import rows as missions
from sandboxd.cockpit.record import Heard, News, Pending, Place, Record, Sighting
from sandboxd.cockpit.room import ROOMY, Full, Room
from sandboxd.cockpit.schema import SCHEMA
from sandboxd.db.database import Database, open_database

T = TypeVar("T")

DUE_AT_ONCE: Final = 100


class Records:
    """One cockpit's file, opened by `open_records`. Everything here can raise `DatabaseUnavailable`."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._changes = 0
        self._changed = trio.Event()

    async def receive(
        self, place: Place, envelope: Mapping[str, Any], event: Received, links: Links, *, most: int, room: Room = ROOMY
    ) -> Heard | Full | None:
        """A valid envelope of an input-required task, for the first time or again.

        Not put on record: None, where its task has asked more than `most` questions before; `Full`, where there is no room.
        """

        def work(connection: sqlite3.Connection) -> Heard | Full | None:
            now = self._clock()
            known = rows.find(connection, place.host, event.question.prompt_id)
            if known is not None:
                return decide_question(connection, known, event, now)
            if rows.asked(connection, place.host, place.task_id) > most:
                return None
            if (full := room.full(*rows.open_beside(connection, place))) is not None:
                return full
            decided = begin(event, now)
            record = rows.insert(connection, place, envelope, links, decided.approval)
            rows.tell(connection, record, event, decided, now=now)
            missions.question_moved(connection, place, record.number, decided.approval, now)
            return Heard(record, decided, rows.asked(connection, place.host, place.task_id))

        return await self._write(work)

    async def hear(self, record: Record, event: Event, *, done: int | None = None, lasted_ms: int | None = None) -> Heard:
        """An event about that question, whatever has become of it since.

        `done`: the revision of the call that it ends, and `lasted_ms` how long that took.
        """

        def work(connection: sqlite3.Connection) -> Heard:
            known, now = rows.by_number(connection, record.number), self._clock()
            return decide_question(connection, known, event, now, done, lasted_ms=lasted_ms)

        return await self._write(work)

    async def restart(self) -> int:
        """What was under way when the process died is found out anew; how many questions there are."""

        def work(connection: sqlite3.Connection) -> int:
            now, waiting = self._clock(), rows.unfinished(connection)
            rows.drop_wires(connection)
            for record in waiting:
                decide_question(connection, record, Restarted(), now)
            return len(waiting)

        return await self._write(work)

    async def tick(self) -> None:
        """Do what it is time for."""

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock()
            for record in rows.due(connection, now, DUE_AT_ONCE):
                decide_question(connection, record, Ticked(), now)

        await self._write(work)

    async def next_due(self) -> datetime | None:
        """When it is next time for something."""
        next_us = await self._database.read(rows.next_due)
        return None if next_us is None else from_us(next_us)

    async def sight(self, place: Place, *, kind: str, digest: str, text: str, why: str, links: Links, most: int) -> bool:
        """A task that asks what cannot be asked here; whether it has asked `most` questions at most, this one included.

        What goes beyond that by more than one is not put on record.
        """

        def work(connection: sqlite3.Connection) -> bool:
            if rows.asked(connection, place.host, place.task_id) <= most:
                rows.sight(connection, place, kind=kind, digest=digest, text=text, why=why, links=links, now=self._clock())
            return rows.asked(connection, place.host, place.task_id) <= most

        return await self._write(work)

    async def pass_by(self, place: Place, links: Links, digest: str = "") -> None:
        """What was sighted at the task is over, but for what has that digest."""
        await self._write(lambda connection: rows.pass_by(connection, place, digest, links, self._clock()))

    async def full(self, place: Place, room: Room) -> Full | None:
        """Whether there is room for a question of that task."""
        return room.full(*await self._database.read(lambda connection: rows.open_beside(connection, place)))

    async def find(self, host: str, prompt_id: str) -> Record | None:
        """The question of that id on that host."""
        return await self._database.read(lambda connection: rows.find(connection, host, prompt_id))

    async def unfinished(self) -> Sequence[Record]:
        """Every question that is not closed."""
        return await self._database.read(rows.unfinished)

    async def of_task(self, host: str, task_id: str) -> Sequence[Record]:
        """The questions of a task that are not closed."""
        return await self._database.read(lambda connection: rows.of_task(connection, host, task_id))

    async def pending(self) -> Sequence[Pending]:
        """The calls that are to be made."""
        return await self._database.read(rows.pending)

    async def sightings(self) -> Sequence[Sighting]:
        """What stands there now and cannot be asked."""
        return await self._database.read(rows.sightings)

    async def untold(self) -> Sequence[Record]:
        """Open questions for which neither a rule nor a person was looked for yet."""
        return await self._database.read(rows.untold)

    async def tell_people(self, record: Record) -> None:
        """No rule answers it: people are asked."""
        await self._write(lambda connection: rows.tell_people(connection, record.number, self._clock()))

    async def note(self, record: Record, event: str, outcome: str, principal: Principal, channel: str) -> None:
        """Put on record what somebody did about a question that changes nothing of it."""

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock()
            rows.note(connection, record, event=event, outcome=outcome, principal=principal, channel=channel, now=now)

        await self._write(work)

    async def news_after(self, number: int, limit: int) -> Sequence[News]:
        """What people are told, behind that number and in order; a channel keeps how far it has come."""
        return await self._database.read(lambda connection: rows.news_after(connection, number, limit))

    async def audit_last(self, limit: int) -> Sequence[Kept]:
        """The end of the audit."""
        return await self._database.read(lambda connection: audit.last(connection, limit))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What one moment of the file says; for those who show it (`listing`), and for the rooms beside, with their tables."""
        return await self._database.read(work)

    @property
    def changes(self) -> int:
        """Grows whenever something may have changed; for `wait_changed`."""
        return self._changes

    async def wait_changed(self, since: int) -> int:
        """Return once `changes` is no longer `since`; what it is then."""
        while self._changes == since:
            await self._changed.wait()
        return self._changes

    def touch(self) -> None:
        """Let everybody who waits look again."""
        self._changes += 1
        self._changed.set()
        self._changed = trio.Event()

    async def close(self) -> None:
        """Finish what was begun."""
        await self._database.close()

    async def write(self, work: Callable[[sqlite3.Connection, datetime], T]) -> T:
        """For the rooms beside: one transaction, with the time read inside it; who waits for changes hears of it."""
        return await self._write(lambda connection: work(connection, self._clock()))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        result = await self._database.write(work)
        self.touch()
        return result


def decide_question(
    connection: sqlite3.Connection,
    record: Record,
    event: Event,
    now: datetime,
    done: int | None = None,
    *,
    lasted_ms: int | None = None,
) -> Heard:
    """One event about a question, within a transaction: all that it changes, its mission included."""
    decided = decide(record.approval, event, now)
    kept = rows.keep(connection, record, event, decided, now=now, done=done, lasted_ms=lasted_ms)
    if decided.approval != record.approval:
        missions.question_moved(connection, record.place, record.number, decided.approval, now)
    return Heard(kept, decided)


@asynccontextmanager
async def open_records(path: Path, clock: Callable[[], datetime]) -> AsyncIterator[Records]:
    """The file's records for as long as the block runs; `DatabaseUnavailable` says why it cannot be opened."""
    records = Records(await open_database(path, SCHEMA), clock)
    try:
        yield records
    finally:
        await records.close()
