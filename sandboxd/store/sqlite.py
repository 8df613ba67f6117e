"""How do one SQLite file, and the files of output beside it, keep what a store promises?

Writes go through the one writer of `db` and share its commits, reads through its readers; the statements are in `changes` and
`queries`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from sandboxd import logs
from sandboxd.a2a.model import Message
from sandboxd.chain import Kept
from sandboxd.db.batch import Alike
from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.db.database import CHECK_LIMIT_S, Database, Found
from sandboxd.store import audit, changes, foreseen, pushes, queries, retention, sends
from sandboxd.store.base import (
    AuditEntry,
    AuditPage,
    DeadPush,
    Entry,
    PromptRecord,
    PushEntry,
    SendKey,
    SendRecord,
    Standing,
    StoredEvent,
    StoreUnavailable,
    TaskQuery,
    TaskRows,
    Told,
    Unfinished,
)
from sandboxd.store.codec import Undecodable
from sandboxd.store.files import Files, OutputDamaged
from sandboxd.store.opening import Begun, begin_store
from sandboxd.tasks.view import TaskView

T = TypeVar("T")

_log = logs.logger(__name__)


class SqliteStore:
    """`Store` in one file, opened by `open_store`."""

    def __init__(self, database: Database, files: Files) -> None:
        self._database = database
        self._files = files
        # The same function each time: by that the writer sees which works it can do in one call.
        self._keep = partial(changes.keep, files=files)
        self._promises = foreseen.Promises()

    async def create(self, principal: str, entries: Sequence[Entry], view: TaskView) -> None:
        """As `Store.create`."""
        change = changes.prepare(entries, view, after=0, principal=principal)
        await self._write(Alike(self._keep, change), change.size_bytes)

    async def append(self, entries: Sequence[Entry], view: TaskView, *, after: int) -> None:
        """As `Store.append`. A caller that is cancelled abandons only the waiting: the write goes on."""
        try:
            change = changes.prepare(entries, view, after=after)
            await self._write(Alike(self._keep, change), change.size_bytes)
        except Exception as error:
            self._promises.fail(view.task_id, str(error))
            raise
        self._promises.keep(view.task_id)

    def prepared(self, entry: Entry, view: TaskView, *, after: int) -> Entry:
        """As `Store.prepared`."""
        return attrs.evolve(entry, prepared=changes.Prepared(view, changes.prepare([entry], view, after=after)))

    async def foresee(self, entry: Entry, view: TaskView, *, after: int) -> None:
        """As `Store.foresee`."""
        change = changes.prepare([entry], view, after=after)
        await self._write(foreseen.keeping(change), change.size_bytes)

    async def unforesee(self, task_id: str, *, after: int) -> None:
        """As `Store.unforesee`."""
        await self._write(foreseen.forgetting(task_id, after))

    def promise(self, task_id: str) -> None:
        """As `Store.promise`."""
        self._promises.make(task_id)

    def forsake(self, task_id: str) -> None:
        """As `Store.forsake`."""
        self._promises.fail(task_id, "whoever was to put it in its place has ended")

    async def view(self, task_id: str, *, history_length: int | None = None) -> TaskView | None:
        """As `Store.view`."""
        await self._promises.kept(task_id)
        return await self._read(lambda connection: queries.view(connection, task_id, history_length))

    async def owner(self, task_id: str) -> str | None:
        """As `Store.owner`."""
        return await self._read(lambda connection: queries.owner(connection, task_id))

    async def view_at(self, task_id: str, seq: int) -> TaskView | None:
        """As `Store.view_at`."""
        await self._promises.kept(task_id)
        return await self._read(lambda connection: queries.view_at(connection, task_id, seq))

    async def events(self, task_id: str, *, after: int, limit: int = 1000) -> Sequence[StoredEvent]:
        """As `Store.events`."""
        await self._promises.kept(task_id)
        return await self._read(lambda connection: queries.events(connection, self._files, task_id, after, limit))

    async def read(self, task_id: str, artifact_id: str, start: int, stop: int) -> bytes:
        """As `Store.read`."""
        return await self._read(
            lambda connection: queries.read(connection, self._files, task_id, artifact_id, range(start, stop))
        )

    async def tasks(self, query: TaskQuery) -> TaskRows:
        """As `Store.tasks`."""
        await self._promises.kept()
        return await self._read(lambda connection: queries.tasks(connection, query))

    async def prompt(self, prompt_id: str) -> PromptRecord | None:
        """As `Store.prompt`."""
        await self._promises.kept()
        return await self._read(lambda connection: queries.prompt(connection, prompt_id))

    async def history(self, task_id: str, count: int) -> Sequence[Message]:
        """As `Store.history`."""
        await self._promises.kept(task_id)
        return await self._read(lambda connection: queries.history(connection, task_id, count))

    async def unfinished(self, task_id: str | None = None) -> Sequence[Unfinished]:
        """As `Store.unfinished`."""
        return await self._read(lambda connection: queries.unfinished(connection, task_id))

    async def standing(self) -> Standing:
        """As `Store.standing`."""
        with contextlib.suppress(StoreUnavailable):  # a count is worth having while a disk takes nothing
            await self._promises.kept()
        return await self._read(queries.standing)

    async def prune(self, *, ended_before: datetime, limit: int = 500) -> int:
        """As `Store.prune`: one piece of work a task, so that nobody waits long behind it."""
        gone = 0
        for task_id in await self._read(lambda connection: queries.ended_before(connection, ended_before, limit)):
            gone += await self._write(retention.deletion(task_id))
        await self._remove_files()
        return gone

    async def prune_events(self, *, ended_before: datetime, limit: int = 500) -> int:
        """As `Store.prune_events`, one piece of work a task."""
        numbers = await self._read(lambda connection: queries.ended_with_events(connection, ended_before, limit))
        for number in numbers:
            await self._write(retention.without_events(number))
        return len(numbers)

    async def prune_output(self, *, ended_before: datetime, limit: int = 500) -> int:
        """As `Store.prune_output`, one piece of work a task."""
        numbers = await self._read(lambda connection: queries.ended_with_output(connection, ended_before, limit))
        for number in numbers:
            await self._write(retention.without_output(number))
        await self._remove_files()
        return len(numbers)

    async def compact(self, *, max_bytes: int) -> int:
        """As `Store.compact`."""
        return await self._write(lambda connection: retention.compact(connection, max_bytes))

    async def reserve(self, key: SendKey, digest: str, *, now: datetime, ttl_s: float, max_entries: int) -> SendRecord | None:
        """As `Store.reserve`."""
        return await self._write(
            lambda connection: sends.reserve(connection, key, digest, now=now, ttl_s=ttl_s, max_entries=max_entries)
        )

    async def settle(self, key: SendKey, told: Told) -> None:
        """As `Store.settle`."""
        await self._write(lambda connection: sends.settle(connection, key, told), len(told.body))

    async def forget_sends(self, *, before: datetime, limit: int = 500) -> int:
        """As `Store.forget_sends`."""
        return await self._write(lambda connection: sends.forget(connection, before, limit))

    async def note(self, entry: AuditEntry) -> None:
        """As `Store.note`."""
        await self._write(lambda connection: audit.note_all(connection, [entry]))

    async def audit_after(self, number: int, limit: int) -> AuditPage:
        """As `Store.audit_after`."""
        return await self._read(lambda connection: audit.after(connection, number, limit))

    async def audit_last(self, limit: int) -> Sequence[Kept]:
        """As `Store.audit_last`."""
        return await self._read(lambda connection: audit.last(connection, limit))

    async def forget_audit(self, *, before: datetime, limit: int = 500) -> int:
        """As `Store.forget_audit`."""
        return await self._write(lambda connection: audit.forget(connection, before, limit))

    async def put_push(self, entry: PushEntry, *, max_per_task: int | None) -> PushEntry:
        """As `Store.put_push`."""
        return await self._write(lambda connection: pushes.put(connection, entry, max_per_task))

    async def pushes(self, task_id: str) -> Sequence[PushEntry]:
        """As `Store.pushes`."""
        return await self._read(lambda connection: pushes.of_task(connection, task_id))

    async def live_pushes(self) -> Sequence[PushEntry]:
        """As `Store.live_pushes`."""
        return await self._read(pushes.live)

    async def drop_pushes(self, numbers: Sequence[int]) -> None:
        """As `Store.drop_pushes`."""
        await self._write(lambda connection: pushes.drop(connection, numbers))

    async def drop_pushes_of(self, principals: Collection[str]) -> Sequence[PushEntry]:
        """As `Store.drop_pushes_of`."""
        return await self._write(lambda connection: pushes.drop_of(connection, principals))

    async def advance_push(self, number: int, cursor: int, *, got_through: bool) -> bool:
        """As `Store.advance_push`."""
        return await self._write(lambda connection: pushes.advance(connection, number, cursor, got_through=got_through))

    async def fail_push(self, number: int, *, tries: int, next_at: datetime) -> bool:
        """As `Store.fail_push`."""
        return await self._write(lambda connection: pushes.fail(connection, number, tries, next_at))

    async def bury_push(self, number: int, dead: DeadPush) -> bool:
        """As `Store.bury_push`."""
        return await self._write(lambda connection: pushes.bury(connection, number, dead))

    async def dead_pushes(self, *, limit: int = 1000) -> Sequence[DeadPush]:
        """As `Store.dead_pushes`."""
        return await self._read(lambda connection: pushes.dead(connection, limit))

    async def dead_push(self, number: int) -> DeadPush | None:
        """As `Store.dead_push`."""
        return await self._read(lambda connection: pushes.one_dead(connection, number))

    async def drop_dead(self, number: int) -> None:
        """As `Store.drop_dead`."""
        await self._write(lambda connection: pushes.drop_dead(connection, number))

    async def retry_dead(self, number: int, *, at: datetime, why: str) -> None:
        """As `Store.retry_dead`."""
        await self._write(lambda connection: pushes.retry_dead(connection, number, at, why))

    async def size_bytes(self) -> int:
        """As `Store.size_bytes`."""
        return await self._read(queries.size_bytes)

    async def check(self) -> None:
        """As `Store.check`."""
        if self._database.damage is not None:
            raise StoreUnavailable(f"cannot trust the store: it is damaged: {self._database.damage}")
        written = await self._write(_count_check)
        if await self._read(_checks) < written:
            raise StoreUnavailable("cannot read the store: what was written is not there")

    async def look_at_files(self) -> None:
        """Say which tasks' files of output are gone or shorter than they were; their tasks stand, and a read says it again."""
        for task_id, why in await self._read(lambda connection: queries.lost_output(connection, self._files, CHECK_LIMIT_S)):
            _log.error("Cannot read all of a task's output", task=task_id, error=why)

    async def close(self) -> None:
        """As `Store.close`."""
        try:
            await self._database.close()
        except DatabaseUnavailable as error:
            raise StoreUnavailable(f"cannot close the store: {error}") from error

    async def _write(self, work: Callable[[sqlite3.Connection], T], size_bytes: int = 0) -> T:
        try:
            return await self._database.write(work, size_bytes=size_bytes)
        except DatabaseUnavailable as error:
            raise StoreUnavailable(f"cannot write the store: {error}") from error

    async def _remove_files(self) -> None:
        """Remove what no task has any more: after the commit that says so, and before the one that forgets it."""
        there = await trio.to_thread.run_sync(lambda: tuple(self._files.numbers()))
        numbers = await self._read(lambda connection: retention.unused_files(connection, there))
        try:
            for number in numbers:
                await trio.to_thread.run_sync(self._files.remove, number)
        except OSError as error:
            raise StoreUnavailable(f"cannot remove output: {error.strerror}: `{error.filename}`") from error
        if numbers:
            await self._write(retention.without_files(numbers))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            try:
                return await self._database.read(work)
            except OutputDamaged:  # or it was removed since the moment that this read saw: then the next sees that
                return await self._database.read(work)
        except (DatabaseUnavailable, Undecodable) as error:
            if isinstance(error, OutputDamaged):
                _log.error("Cannot read a task's output", error=str(error))
            raise StoreUnavailable(f"cannot read the store: {error}") from error


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SqliteStore]:
    """Open or make the store at `path`, and close it in the end; `StoreUnavailable` says why it cannot be opened."""
    async with begin_store(path) as begun, opened_store(begun) as store:
        yield store


@asynccontextmanager
async def opened_store(begun: Begun) -> AsyncIterator[SqliteStore]:
    """As `open_store`, of a file that is being opened already."""
    try:
        database = await begun.opening.database()
    except DatabaseUnavailable as error:
        raise StoreUnavailable(f"cannot open the store `{begun.path}`: {error}") from error
    _tell(database.found)
    store = SqliteStore(database, begun.files)
    try:
        await store.look_at_files()
        yield store
    finally:
        await store.close()


def _tell(found: Found) -> None:
    if not found.was_closed:
        is_whole = "yes" if found.is_whole else "not known"
        _log.warning(
            "the store was not closed by the daemon before this one", whole=is_whole, seconds=round(found.elapsed_s, 2)
        )
    if found.is_whole is None:
        _log.warning("Cannot look at all of the store in time, so damage in it may show later; `sandboxd backup` looks at all")


def _count_check(connection: sqlite3.Connection) -> int:
    (checks,) = connection.execute("UPDATE health SET checks = checks + 1 RETURNING checks").fetchone()
    return int(checks)


def _checks(connection: sqlite3.Connection) -> int:
    (checks,) = connection.execute("SELECT checks FROM health").fetchone()
    return int(checks)
