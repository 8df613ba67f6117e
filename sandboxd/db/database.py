"""What does a room need to keep facts in one SQLite file?

`open_database` gives one: `write` for one piece of work that is on disk when it returns, `read` for one look at one moment.
Nothing here knows what the tables mean. Every start looks at the file's pages; after a daemon that could not close it (its log
is still there) it also looks whether tables and indexes agree, and takes longer for it. A thread of its own does that, so
whoever has something else to do begins by `begin_opening`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from sandboxd.db import place
from sandboxd.db.batch import NOTHING, Beside
from sandboxd.db.connection import DatabaseUnavailable, connect, connect_reader, is_damage, why
from sandboxd.db.readers import Readers
from sandboxd.db.schema import Schema, check_belongs, migrate
from sandboxd.db.writer import Writer
from sandboxd.values import frozen

if TYPE_CHECKING:
    from outcome import Outcome

T = TypeVar("T")

READERS: Final = 3
CHECK_LIMIT_S: Final = 2.0  # a look at every page takes about 1 s a gigabyte; a start must not wait for more than this
UNCLEAN_CHECK_LIMIT_S: Final = 10.0  # where there is reason to look; below systemd's 90 s for a start
CLOSE_LIMIT_S: Final = 10.0


@frozen
class Found:
    """In which state the file was. `was_closed`: by whoever had it last. `is_whole` None: the time was not enough to tell."""

    was_closed: bool
    is_whole: bool | None
    elapsed_s: float


@frozen
class _Opened:
    lock: int
    writing: sqlite3.Connection
    reading: tuple[sqlite3.Connection, ...]
    found: Found


class Database:
    """One file, opened by `open_database`."""

    def __init__(self, opened: _Opened, beside: Beside) -> None:
        self._opened = opened
        self.found = opened.found
        self.damage: str | None = None  # what SQLite said when it met a page that it did not write; until the next start
        self._writer = Writer(opened.writing, beside)
        self._readers = Readers(opened.reading)
        self._closing = trio.Lock()
        self._is_closed = False

    async def write(self, work: Callable[[sqlite3.Connection], T], *, size_bytes: int = 0) -> T:
        """Run `work` in a transaction of its own or shared with others; what it returned is on disk when this returns.

        Raises what `work` raised, with nothing of it kept, or `DatabaseUnavailable`. Cancelling abandons only the waiting.
        """
        try:
            return await self._writer.write(work, size_bytes=size_bytes)
        except DatabaseUnavailable as error:
            self._look_at(error)
            raise

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on a worker thread; it sees one moment, after every write that returned. `DatabaseUnavailable`."""
        try:
            return await self._readers.read(work)
        except DatabaseUnavailable as error:
            self._look_at(error)
            raise

    def _look_at(self, error: DatabaseUnavailable) -> None:
        if self.damage is None and is_damage(error.__cause__):
            self.damage = str(error)

    async def close(self) -> None:
        """Finish what was accepted, then close and let go of the lock; bounded, and not cut short by cancellation.

        Raises `DatabaseUnavailable` when that takes longer than `CLOSE_LIMIT_S`; what was acknowledged is on disk all the same.
        """
        with trio.CancelScope(deadline=trio.current_time() + CLOSE_LIMIT_S, shield=True):
            async with self._closing:
                if self._is_closed:
                    return
                await self._writer.stop()
                await self._readers.stop()
                await trio.to_thread.run_sync(self._opened.writing.close)  # the last one: folds the log into the file
                os.close(self._opened.lock)
                self._is_closed = True
        if not self._is_closed:
            raise DatabaseUnavailable(f"it could not be closed within {CLOSE_LIMIT_S:g} s")


class Opening:
    """A file that is being opened, from the moment that this is made, whatever else this thread does."""

    def __init__(self, path: Path, schema: Schema, beside: Beside) -> None:
        self._beside = beside
        self._found: Outcome[_Opened] | None = None
        self._is_taken = False
        self._done = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        trio.lowlevel.start_thread_soon(partial(_open, path, schema), self._deliver, "opens a database")

    def _deliver(self, found: Outcome[_Opened]) -> None:
        self._found = found
        self._token.run_sync_soon(self._done.set)

    async def database(self) -> Database:
        """The file, once it is open; `DatabaseUnavailable` says why it is not. For one caller, who closes it."""
        await self._done.wait()
        assert self._found is not None
        self._is_taken = True
        return Database(self._found.unwrap(), self._beside)

    async def close(self) -> None:
        """Close what nobody took, as soon as it is open; not cut short by cancellation, bounded as opening and closing are."""
        if self._is_taken:  # a second close of what could not be closed would wait as long again
            return
        with trio.CancelScope(shield=True):
            try:
                database = await self.database()
            except DatabaseUnavailable:  # what ended the block is told, not that this would not have opened either
                return
            await database.close()


async def open_database(path: Path, schema: Schema, beside: Beside = NOTHING) -> Database:
    """Open or make the file and bring its schema up to date; the caller closes it. `DatabaseUnavailable` says why not.

    `beside`: what is flushed before every commit.
    """
    opening = Opening(path, schema, beside)
    try:
        return await opening.database()
    except trio.Cancelled:
        await opening.close()  # what nobody has would stay open
        raise


@asynccontextmanager
async def begin_opening(path: Path, schema: Schema, beside: Beside = NOTHING) -> AsyncIterator[Opening]:
    """As `open_database`, but by a thread while the block goes on; what nobody has taken by its end is closed then."""
    opening = Opening(path, schema, beside)
    try:
        yield opening
    finally:
        await opening.close()


def _open(path: Path, schema: Schema) -> _Opened:
    lock = place.prepare(path)
    was_closed = not place.has_log(path)
    with ExitStack() as undo:
        undo.callback(os.close, lock)
        try:
            writing = connect(path)
            undo.callback(writing.close)
            check_belongs(writing, schema)
            # Only a file without tables takes it. Space can be given back piece by piece, later.
            writing.execute("PRAGMA auto_vacuum = INCREMENTAL")
            (mode,) = writing.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise DatabaseUnavailable("its file system cannot hold a write-ahead log (shared memory is needed)")
            found = _check(writing, was_closed=was_closed)
            migrate(writing, schema)
            place.say_it_holds(lock)
            reading = []
            for _ in range(READERS):
                reading.append(connect_reader(path))
                undo.callback(reading[-1].close)
        except sqlite3.Error as error:
            if is_damage(error):
                raise DatabaseUnavailable(f"it is damaged: {why(error)}\n  {place.RESTORE}") from error
            raise DatabaseUnavailable(why(error)) from error
        except UnicodeDecodeError as error:  # in place of SQLite's word, which quotes the damaged schema
            raise DatabaseUnavailable(f"it is damaged: its schema is no text\n  {place.RESTORE}") from error
        except OSError as error:
            raise DatabaseUnavailable(f"{error.strerror}: `{path}`") from error
        undo.pop_all()
    return _Opened(lock, writing, tuple(reading), found)


def _check(connection: sqlite3.Connection, *, was_closed: bool) -> Found:
    """Look for damage, in bounded time: a file too large for that is taken as it is, which `Found` says."""
    began = time.monotonic()
    check = "quick_check" if was_closed else "integrity_check"
    found = None
    with _interrupted_after(connection, CHECK_LIMIT_S if was_closed else UNCLEAN_CHECK_LIMIT_S) as is_late:
        try:
            (found,) = connection.execute(f"PRAGMA {check}(1)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
    # An interrupted look may take pages that it did not come to for lost ones, and say so: then it says nothing.
    if is_late.is_set():
        return Found(was_closed, None, time.monotonic() - began)
    if found != "ok":
        raise DatabaseUnavailable(f"it is damaged: {found}\n  {place.RESTORE}")
    return Found(was_closed, True, time.monotonic() - began)


@contextmanager
def _interrupted_after(connection: sqlite3.Connection, limit_s: float) -> Iterator[threading.Event]:
    """SQLite is told to stop once the time is over, which the event says.

    By another thread: a function that SQLite calls in between would wait for the interpreter each time, while code is loaded.
    """
    is_late = threading.Event()

    def interrupt() -> None:
        is_late.set()
        connection.interrupt()

    timer = threading.Timer(limit_s, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
        timer.join()  # nothing after this is interrupted
