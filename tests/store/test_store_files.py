"""Is output that stands in files kept, found, told when it is damaged, and removed when its time is over?"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from sandboxd.store.backup import back_up
from sandboxd.store.base import StoreUnavailable
from sandboxd.store.files import FROM_BYTES, Files
from sandboxd.store.schema import SCHEMA
from sandboxd.store.sqlite import SqliteStore, open_store
from tests.store.story import NOON, Story
from tests.support.captured import captured

LATER = NOON + timedelta(days=1)
BEFORE_FILES = 10
SIZES = (10, 70_000, 5, FROM_BYTES - 1, FROM_BYTES, 200_000, 1)


def text(size: int, salt: int = 0) -> bytes:
    return bytes((number * 7 + salt + number // 251) % 256 for number in range(size))


async def tell_much(store: SqliteStore, task_id: str = "task-1") -> tuple[Story, bytes, bytes]:
    """A task with large and small pieces of two artifacts; the bytes of each."""
    story, out, err = await Story(store, task_id).begin(), b"", b""
    for number, size in enumerate(SIZES):
        await story.write(text(size, number), "stdout")
        await story.write(text(size // 2, number), "stderr")
        out, err = out + text(size, number), err + text(size // 2, number)
    return story, out, err


def files_of(path: Path) -> list[str]:
    return sorted(os.listdir(Files(path).folder)) if Files(path).folder.exists() else []


async def test_pieces_in_files_and_in_rows_are_read_as_one(path):
    async with open_store(path) as store:
        story, out, err = await tell_much(store)
    async with open_store(path) as store:
        assert await store.read("task-1", "stdout", 0, 10**9) == out
        assert await store.read("task-1", "stderr", 0, 10**9) == err
        for start in (0, 9, 10, 11, 70_009, 70_010, 70_015, 200_000, len(out) - 1, len(out)):
            for size in (0, 1, 6, 70_000, 10**9):
                assert await store.read("task-1", "stdout", start, start + size) == out[start : start + size]
        after, chunks = 0, b""
        while events := await store.events("task-1", after=after):
            chunks += b"".join(stored.chunk for stored in events if getattr(stored.event, "artifact_id", "") == "stdout")
            after = events[-1].seq
        assert chunks == out
        assert await store.view("task-1") == story.view


async def test_small_pieces_make_no_file(path):
    async with open_store(path) as store:
        story = await Story(store).begin()
        await story.write(bytes(FROM_BYTES - 1))
    assert files_of(path) == []


async def test_files_are_private(path):
    async with open_store(path) as store:
        await tell_much(store)
    folder = Files(path).folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


async def test_bytes_that_no_row_names_are_not_read_and_do_not_stand_in_the_way(path):
    async with open_store(path) as store:
        story, out, err = await tell_much(store)
    for name in files_of(path):
        with (Files(path).folder / name).open("ab") as file:
            file.write(b"of a commit that never came")
    async with open_store(path) as store:
        await story_on(story, store).write(text(50_000, 99), "stdout")

        assert await store.read("task-1", "stdout", 0, 10**9) == out + text(50_000, 99)
        assert await store.read("task-1", "stderr", 0, 10**9) == err


def story_on(story: Story, store: SqliteStore) -> Story:
    story.store = store
    return story


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "why", "shows_at_the_start"),
    [
        (remove, "No such file", True),
        (cut, "ends within a piece", True),
        (empty, "ends within a piece", True),
        (flip, "has other bytes", False),
    ],
)
async def test_damage_is_told_and_hits_that_task_alone(
    path: Path, damage: Callable[[Path], None], why: str, shows_at_the_start: bool
):
    async with open_store(path) as store:
        hit = await Story(store, "hit").begin()
        await hit.write(text(100_000))
        whole, out, _ = await tell_much(store, "whole")
    damage(Files(path).folder / "1")
    with captured() as lines:
        async with open_store(path) as store:
            with pytest.raises(StoreUnavailable, match=f"cannot read the store: .*{why}"):
                await store.read("hit", "terminal", 0, 10**9)
            with pytest.raises(StoreUnavailable, match=f"cannot read the store: .*{why}"):
                await store.events("hit", after=0)
            assert await store.view("hit") == hit.view
            assert await store.view("whole") == whole.view
            assert await store.read("whole", "stdout", 0, 10**9) == out
    with pytest.raises(StoreUnavailable, match=f"cannot copy the store .*{why}"):
        back_up(path, path.with_name("copy"))
    assert not path.with_name("copy").exists()
    told = [line["task"] for line in lines if line["event"] == "Cannot read all of a task's output"]
    assert told == (["hit"] if shows_at_the_start else [])


async def test_files_go_with_their_task_or_its_output_and_no_number_comes_twice(path):
    async with open_store(path) as store:
        of: dict[str, set[str]] = {}
        for task_id in ("goes", "stays", "loses"):
            before_it = set(files_of(path))
            story, out, _ = await tell_much(store, task_id)
            of[task_id] = set(files_of(path)) - before_it
            assert len(of[task_id]) == 2
            if task_id != "stays":
                story.now = NOON - timedelta(days=2 if task_id == "goes" else 1)
                await story.finish()
        assert await store.prune(ended_before=NOON - timedelta(days=1, hours=1)) == 1
        assert set(files_of(path)) == of["stays"] | of["loses"]
        before = await store.size_bytes()
        assert await store.prune_output(ended_before=NOON - timedelta(hours=1)) == 1
        assert set(files_of(path)) == of["stays"]
        assert await store.size_bytes() < before - len(out)
        await tell_much(store, "new")
        new = set(files_of(path)) - of["stays"]
        assert len(new) == 2
        assert min(map(int, new)) > max(map(int, set.union(*of.values())))
        assert await store.read("stays", "stdout", 0, 10**9) == out


async def test_a_file_that_was_left_behind_goes_with_the_next_that_is_removed(path):
    async with open_store(path) as store:
        story, _, _ = await tell_much(store)
        await story.finish()
    (Files(path).folder / "1").rename(Files(path).folder / "keep")
    async with open_store(path) as store:
        await store.prune(ended_before=LATER)
    (Files(path).folder / "2").write_bytes(b"as after a crash between the two")
    async with open_store(path) as store:
        await store.prune(ended_before=LATER)
    assert files_of(path) == ["keep"]


async def test_files_count_as_what_is_in_use(path):
    async with open_store(path) as store:
        before = await store.size_bytes()
        story = await Story(store).begin()
        await story.write(bytes(1024 * 1024))
        assert 1024 * 1024 <= await store.size_bytes() - before < 1200 * 1024


async def test_a_folder_that_cannot_be_written_is_said_and_works_again_afterwards(path):
    async with open_store(path) as store:
        story = await Story(store).begin()
        Files(path).folder.write_text("in the way")
        with pytest.raises(StoreUnavailable, match="cannot write the store: Not a directory: "):
            await story.write(text(50_000))
        await story.write(b"small")
        Files(path).folder.unlink()
        await story.write(text(50_000))

        assert await store.read("task-1", "terminal", 0, 10**9) == b"small" + text(50_000)


async def test_a_copy_has_all_in_one_file(path, tmp_path):
    async with open_store(path) as store:
        story, out, err = await tell_much(store)
        back_up(path, tmp_path / "copy")
        await story.write(b"later", "stdout")
    restored = tmp_path / "restored" / "store.sqlite"
    restored.parent.mkdir(mode=0o700)
    shutil.copy(tmp_path / "copy", restored)
    async with open_store(restored) as store:
        assert await store.read("task-1", "stdout", 0, 10**9) == out
        assert await store.read("task-1", "stderr", 0, 10**9) == err
        await tell_much(store, "task-2")
    assert min(map(int, files_of(restored))) > max(map(int, files_of(path)))


async def test_output_of_an_older_schema_is_read_and_goes_on(path):
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as old:
        for script in SCHEMA.migrations[:BEFORE_FILES]:
            old.executescript(script)
        old.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        old.execute(f"PRAGMA user_version = {BEFORE_FILES}")
        old.execute("INSERT INTO tasks VALUES (1, 'task-0', 'box', 'c', 'alice', 'working', 0, 0, 2, '[]')")
        for offset in range(0, 150_000, 50_000):
            old.execute(
                "INSERT INTO output (task, artifact, offset, data) VALUES (1, 'stdout', ?, ?)", (offset, text(50_000, offset))
            )
    old.close()
    back_up(path, path.with_name("copy"))
    before = b"".join(text(50_000, offset) for offset in range(0, 150_000, 50_000))
    for stored in (path, path.with_name("copy")):
        async with open_store(stored) as store:
            assert await store.read("task-0", "stdout", 0, 10**9) == before
