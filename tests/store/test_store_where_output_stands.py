"""Is all that happened found again, whichever table or file it stands in?"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sandboxd.db.batch import Alike, Done, commit_together
from sandboxd.db.connection import connect
from sandboxd.db.schema import migrate
from sandboxd.store import changes, queries
from sandboxd.store.base import StoredEvent
from sandboxd.store.files import FROM_BYTES, Files
from sandboxd.store.schema import SCHEMA
from sandboxd.store.sqlite import SqliteStore, open_store
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.view import fold
from tests.store.older import TO_BY_TASK
from tests.store.story import NOON, Story

SIZES = (1, 250, 250, 250, 4000, FROM_BYTES - 1, FROM_BYTES, 40_000, 140_000)
LATER = NOON.replace(year=NOON.year + 1)
EVERYTHING = 10**9
FRAME_BYTES = 24 + 4096  # a page of the log: https://www.sqlite.org/fileformat.html#the_write_ahead_log


async def tell_at_random(story: Story, chance: random.Random, said: dict[str, bytes]) -> None:
    """Pieces of all sizes by both of a program's streams, at times many in one append; `said` is what came of it."""
    for _ in range(40):
        entries, view = [], story.view
        for _ in range(chance.choice((1, 1, 4))):
            stream = chance.choice(("stdout", "stdout", "stderr"))
            data = chance.randbytes(chance.choice(SIZES))
            teller = Story(None)
            teller.view = view
            entries.append(teller.wrote(data, stream))
            view = fold(view, entries[-1].event)
            said[stream] = said.get(stream, b"") + data
        await story.tell(entries)


async def assert_read(store: SqliteStore, story: Story, chance: random.Random, said: dict[str, bytes]) -> None:
    """Every stream whole, and spans of it, are what was said."""
    for stream, data in said.items():
        assert await store.read("task-1", stream, 0, EVERYTHING) == data
        for _ in range(30):
            start = chance.randrange(len(data))
            stop = start + chance.choice((0, 1, 300, 70_000, 400_000))
            assert await store.read("task-1", stream, start, stop) == data[start:stop], (stream, start, stop)
        assert await store.read("task-1", stream, len(data), EVERYTHING) == b""
    assert await store.view("task-1") == story.view


async def assert_replayed(store: SqliteStore, story: Story, said: dict[str, bytes]) -> None:
    """The events, read page by page, are those that were told, with their bytes."""
    found: list[StoredEvent] = []
    heard = dict.fromkeys(said, b"")
    while page := await store.events("task-1", after=len(found), limit=7):
        found += page
    for number, stored in enumerate(found, start=1):
        assert stored.seq == number
        if isinstance(stored.event, Wrote):
            heard[stored.event.artifact_id] += stored.chunk
    assert [stored.event for stored in found] == story.events
    assert heard == said


@pytest.mark.parametrize("seed", range(3))
async def test_small_and_large_pieces_of_two_streams_are_read_and_replayed_as_they_were_written(path, seed):
    chance, said = random.Random(seed), dict[str, bytes]()
    async with open_store(path) as store:
        story = await Story(store).begin()
        await tell_at_random(story, chance, said)
        await assert_read(store, story, chance, said)
        await assert_replayed(store, story, said)


async def test_output_outlives_its_events_whatever_its_size(path):
    chance, said = random.Random(7), dict[str, bytes]()
    async with open_store(path) as store:
        story = await Story(store).begin()
        await tell_at_random(story, chance, said)
        await story.finish()
        assert await store.prune_events(ended_before=LATER) == 1

        assert await store.events("task-1", after=0) == ()
        await assert_read(store, story, chance, said)
        assert await store.prune_events(ended_before=LATER) == 0
        assert await store.prune_output(ended_before=LATER) == 1
        assert await store.read("task-1", "stdout", 0, EVERYTHING) == b""
        assert await store.prune_output(ended_before=LATER) == 0


async def test_small_output_alone_is_dropped_with_its_events(path):
    async with open_store(path) as store:
        story = await Story(store).begin()
        await story.write(b"a word")
        await story.finish()
        assert await store.prune_output(ended_before=LATER) == 1
        assert await store.read("task-1", "terminal", 0, EVERYTHING) == b""
        assert await store.events("task-1", after=0) == ()


async def test_a_task_of_an_older_store_goes_on_where_it_stood(path):
    chance, said = random.Random(11), dict[str, bytes]()
    async with open_store(path) as store:
        story = await Story(store).begin()
        await tell_at_random(story, chance, said)
    with sqlite3.connect(path) as old:
        old.executescript(TO_BY_TASK)
    old.close()
    upgraded, views = story.seq, []

    async with open_store(path) as store:
        await assert_read(store, story, chance, said)
        await assert_replayed(store, story, said)
        story.store = store
        await tell_at_random(story, chance, said)
        await story.finish()
        await assert_read(store, story, chance, said)
        await assert_replayed(store, story, said)
        views = [await store.view_at("task-1", seq) for seq in (1, upgraded - 1, upgraded, upgraded + 1, story.seq - 1)]
        assert await store.prune_events(ended_before=LATER) == 1
        assert await store.events("task-1", after=0) == ()
        await assert_read(store, story, chance, said)
        assert await store.prune_output(ended_before=LATER) == 1
        assert await store.prune(ended_before=LATER) == 1

    folded, expected = Story(None).view, []
    for event in story.events:
        folded = fold(folded, event)
        if folded.seq in (1, upgraded - 1, upgraded, upgraded + 1, story.seq - 1):
            expected.append(folded)
    assert views == expected


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "store.sqlite"
    path.touch()
    opened = connect(path)
    opened.execute("PRAGMA journal_mode = WAL")
    opened.execute("PRAGMA wal_autocheckpoint = 0")
    migrate(opened, SCHEMA)
    yield opened
    opened.close()


def test_a_page_of_events_is_read_in_order_and_no_further(connection):
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {queries.EVENTS}", (1, 0, 256))]
    assert [step.split()[0] for step in plan] == ["MERGE", "LEFT", "SEARCH", "RIGHT", "SEARCH"], plan  # and nothing is sorted


async def test_a_line_of_each_of_ten_tasks_is_a_commit_of_a_few_pages(connection, tmp_path):
    files, log = Files(tmp_path / "store.sqlite"), tmp_path / "store.sqlite-wal"
    together = partial(changes.keep, files=files)
    told = _Told()
    stories = [Story(told, f"task-{number}") for number in range(10)]
    pages = []
    for story in stories:
        await story.begin()
    for _ in range(100):
        for story in stories:
            await story.write(b"x" * 250)
        works = [Alike(together, change) for change in told.take()]
        before = log.stat().st_size
        assert commit_together(connection, works) == [Done(None)] * len(works)
        pages.append((log.stat().st_size - before) / FRAME_BYTES)

    # The tasks' rows, the end of the events and, for each, a page of their index: 31 when each had two pages of its own.
    assert sum(pages[1:]) / len(pages[1:]) < 15


class _Told:
    """Where the changes of stories gather."""

    def __init__(self) -> None:
        self._changes: list[changes.Change] = []

    async def create(self, principal, entries, view):
        self._changes.append(changes.prepare(entries, view, after=0, principal=principal))

    async def append(self, entries, view, *, after):
        self._changes.append(changes.prepare(entries, view, after=after))

    def take(self):
        taken, self._changes = self._changes, []
        return taken
