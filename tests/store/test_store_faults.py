"""Does a store whose file, schema or clock is not as it was say so, and lose nothing that it still has?"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from sandboxd.store.base import StoreUnavailable, TaskQuery
from sandboxd.store.schema import SCHEMA
from sandboxd.store.sqlite import open_store
from tests.store.story import NOON, Story
from tests.support.captured import captured

FLIPS = 60


async def fill(path: Path) -> Story:
    """One task with 40 events, in a store that was closed well."""
    async with open_store(path) as store:
        story = await Story(store).begin()
        for number in range(30):
            await story.write(b"%05d " % number * 500)
        for _ in range(4):
            await story.answer(await story.ask())
        return story


async def read_all(path: Path) -> tuple[object, ...]:
    """Everything that can be asked of that task."""
    async with open_store(path) as store:
        await store.check()
        events = await store.events("task-1", after=0)
        return (await store.view("task-1"), events, await store.read("task-1", "terminal", 0, 10**9), await store.unfinished())


def copies(path: Path, folder: Path) -> Iterator[Path]:
    content = path.read_bytes()
    for number in range(10**6):
        copy = folder / str(number) / "store.sqlite"
        copy.parent.mkdir(mode=0o700)
        copy.write_bytes(content)
        copy.with_name("store.sqlite.lock").write_bytes(path.with_name("store.sqlite.lock").read_bytes())
        yield copy


async def test_a_file_that_was_cut_short_is_refused_and_told(path, tmp_path):
    await fill(path)
    size = path.stat().st_size
    for copy, length in zip(
        copies(path, tmp_path), (0, 1, 99, 100, 4095, 4096, size // 2, size - 4096, size - 1), strict=False
    ):
        os.truncate(copy, length)
        with pytest.raises(StoreUnavailable, match=r"cannot open the store .*damaged(.|\n)*restore a copy"):
            await read_all(copy)
        assert copy.stat().st_size == length  # nothing was made anew in its place


async def test_a_file_that_is_gone_begins_a_new_store(path):
    await fill(path)
    path.unlink()
    async with open_store(path) as store:
        assert await store.view("task-1") is None


async def test_flipped_bits_are_told_or_change_nothing_but_what_they_hit(path, tmp_path):
    await fill(path)
    whole = await read_all(path)
    chance = random.Random(5)
    told = 0
    for copy, _ in zip(copies(path, tmp_path), range(FLIPS), strict=False):
        content = bytearray(copy.read_bytes())
        at = chance.randrange(len(content) if told % 2 else 8192)  # half of them in the header and the schema
        content[at] ^= 1 << chance.randrange(8)
        copy.write_bytes(content)
        try:
            found = await read_all(copy)
        except StoreUnavailable as error:
            told += 1
            assert str(error).startswith(("cannot open the store", "cannot read the store", "cannot trust the store"))
        else:
            assert len(found) == len(whole)

    assert told > 0


async def test_damage_that_shows_later_makes_the_store_unready(path):
    await fill(path)
    async with open_store(path) as store:
        with path.open("r+b") as file:
            file.seek(4096 * 8)
            file.write(b"\xff" * (path.stat().st_size - 4096 * 8))
        with pytest.raises(StoreUnavailable, match="malformed"):
            await store.read("task-1", "terminal", 0, 10**9)
        with pytest.raises(StoreUnavailable, match="cannot trust the store: it is damaged"):
            await store.check()


@pytest.mark.parametrize("version", range(1, len(SCHEMA.migrations)))
async def test_a_store_of_every_older_schema_is_brought_up_to_date(path, version):
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as old:
        for script in SCHEMA.migrations[:version]:
            old.executescript(script)
        old.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        old.execute(f"PRAGMA user_version = {version}")
        old.execute("INSERT INTO tasks VALUES (1, 'task-0', 'box', 'c', 'alice', 'working', 0, 0, 2, '[]')")
    old.close()
    story = await fill(path)
    async with open_store(path) as store:
        assert await store.view("task-1") == story.view
        assert await store.owner("task-0") == "alice"
        assert (await store.tasks(TaskQuery("box", limit=1))).total == 2


async def test_a_store_of_a_newer_schema_is_refused_with_what_to_do(path):
    await fill(path)
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {len(SCHEMA.migrations) + 1}")
    newer.close()
    with pytest.raises(StoreUnavailable, match="run the newer version, or restore the copy"):
        await read_all(path)


async def test_a_clock_that_jumps_back_loses_and_reorders_no_event(path):
    async with open_store(path) as store:
        story = await Story(store).begin()
        before = [await store.view("task-1")]
        for hours in (1, 24, 24 * 365):
            story.now = NOON - timedelta(hours=hours)
            await story.answer(await story.ask(), f"answer-{hours}")
            before.append(await store.view("task-1"))
        await story.finish()
        events = await store.events("task-1", after=0)
        assert [stored.event for stored in events] == story.events
        assert [await store.view_at("task-1", seq) for seq in (2, 4, 6, 8)] == before
        assert (await store.tasks(TaskQuery("box"))).views == (story.view,)
        assert await store.prune(ended_before=NOON - timedelta(days=400)) == 0
        assert await store.prune(ended_before=NOON) == 1


async def test_a_store_that_nobody_closed_is_checked_and_that_is_said(path, tmp_path):
    await fill(path)
    copy = next(copies(path, tmp_path))
    async with open_store(path) as store:
        await Story(store, "task-2").begin()
        for name in ("store.sqlite", "store.sqlite-wal"):
            copy.with_name(name).write_bytes(path.with_name(name).read_bytes())
    with captured() as closed_well:
        await read_all(path)
    with captured() as not_closed:
        await read_all(copy)

    assert closed_well == []
    (line,) = not_closed
    assert line["event"] == "the store was not closed by the daemon before this one"
    assert line["whole"] == "yes"


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED HERE: files that may not be written (root may write any)")
@pytest.mark.parametrize(("name", "mode"), [("", 0o500), ("store.sqlite", 0o400), ("store.sqlite.lock", 0o400)])
async def test_a_store_that_may_not_be_written_is_refused_by_name(path, name, mode):
    story = await fill(path)
    closed = path.parent / name
    before = closed.stat().st_mode & 0o777
    closed.chmod(mode)
    try:
        if name:
            with pytest.raises(StoreUnavailable, match=f"cannot open the store .*: Permission denied: `{closed}`"):
                await read_all(path)
        else:
            with pytest.raises(StoreUnavailable, match="cannot open the store"):
                await read_all(path)
    finally:
        closed.chmod(before)
    assert (await read_all(path))[0] == story.view


async def test_a_lock_that_somebody_holds_is_told_and_passes(path, monkeypatch):
    monkeypatch.setattr("sandboxd.db.connection.BUSY_TIMEOUT_S", 0.1)
    async with open_store(path) as store:
        story = await Story(store).begin()
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with trio.fail_after(20), pytest.raises(StoreUnavailable, match="cannot write the store: database is locked"):
            await store.check()
        holder.execute("ROLLBACK")
        holder.close()
        await story.write(b"on")
        assert await store.view("task-1") == story.view


async def test_a_store_that_cannot_be_closed_in_time_says_so_and_no_one_tries_again(path, monkeypatch):
    with pytest.raises(StoreUnavailable, match="cannot close the store"):
        async with open_store(path) as store:
            monkeypatch.setattr("sandboxd.db.database.CLOSE_LIMIT_S", -1.0)

    monkeypatch.undo()
    await store.close()
