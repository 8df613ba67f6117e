"""What is left of a task when its events or its output have gone?"""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from pathlib import Path

import attrs

from sandboxd.store.base import Store, TaskQuery
from sandboxd.store.sqlite import open_store
from sandboxd.tasks.view import ArtifactView
from tests.store.older import TO_BY_TASK
from tests.store.story import NOON, Story

LATER = NOON + timedelta(days=1)


async def ended(store: Store, task_id: str = "task-1", pieces: int = 1) -> Story:
    story = await Story(store, task_id).begin()
    for _ in range(pieces):
        await story.write(b"x" * 1000)
    await story.write(b"", last=True)
    await story.finish()
    return story


async def test_a_task_outlives_its_events(store: Store) -> None:
    story = await ended(store)

    assert await store.prune_events(ended_before=LATER) == 1

    assert await store.prune_events(ended_before=LATER) == 0
    assert await store.view("task-1") == story.view
    assert await store.view_at("task-1", story.seq) == story.view
    assert await store.view_at("task-1", 2) is None
    assert await store.events("task-1", after=0) == ()
    assert await store.read("task-1", "terminal", 0, 5) == b"xxxxx"


async def test_a_task_outlives_its_output_and_says_that_it_was_dropped(store: Store) -> None:
    story = await ended(store)

    assert await store.prune_output(ended_before=LATER) == 1

    assert await store.prune_output(ended_before=LATER) == 0
    dropped = ArtifactView("terminal", 0, is_complete=True, cut=1000)
    assert await store.view("task-1") == attrs.evolve(story.view, artifacts=(dropped,))
    assert await store.read("task-1", "terminal", 0, 5) == b""
    assert await store.events("task-1", after=0) == ()


async def test_nothing_goes_before_its_time_or_of_a_task_that_lives(store: Store) -> None:
    await ended(store)
    alive = await Story(store, "alive").begin()
    await alive.write(b"x")

    assert await store.prune_events(ended_before=NOON) == 0
    assert await store.prune_output(ended_before=NOON) == 0
    assert await store.prune_events(ended_before=LATER) == 1
    assert len(await store.events("alive", after=0)) == 3


async def test_the_space_of_what_is_gone_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    async with open_store(path) as store:
        for number in range(4):
            await ended(store, f"task-{number}", pieces=256)
        await store.prune(ended_before=LATER)
        full = await store.compact(max_bytes=64 * 1024)
        assert full > 0
        while left := await store.compact(max_bytes=256 * 1024):
            assert left < full

    assert path.stat().st_size < 256 * 1024


async def test_a_file_of_the_first_version_is_kept_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    async with open_store(path) as store:
        story = await ended(store)
    with sqlite3.connect(path) as old:
        old.executescript(TO_BY_TASK)
        old.executescript("DROP TABLE sends; DROP TABLE audit; DROP TABLE audit_begins; DROP INDEX tasks_by_principal;")
        old.executescript("DROP TABLE push_configs; DROP TABLE push_dead; CREATE TABLE messages (task, message_id);")
        for trigger in ("task_is_counted", "task_is_counted_elsewhere", "task_is_counted_no_more"):
            old.execute(f"DROP TRIGGER {trigger}")
        old.executescript("DROP TABLE totals; DROP TABLE files; DROP TABLE foreseen;")
        old.executescript("ALTER TABLE output DROP COLUMN size; ALTER TABLE output DROP COLUMN checksum;")
        # Views had their messages themselves, as `[…]`, each without a version of its own.
        for (number,) in old.execute("SELECT number FROM tasks").fetchall():
            said = old.execute("SELECT body FROM history WHERE task = ? ORDER BY number", (number,)).fetchall()
            messages = [{name: value for name, value in json.loads(body).items() if name != "v"} for (body,) in said]
            old.execute("UPDATE views SET body = json_set(body, '$.history', json(?))", (json.dumps(messages),))
        old.execute("DROP TABLE history")
        old.executescript("PRAGMA user_version = 1; PRAGMA auto_vacuum = NONE;")
        old.commit()
        old.execute("VACUUM")

    async with open_store(path) as store:
        assert await store.view("task-1") == story.view
        assert tuple(await store.history("task-1", 1)) == story.view.history[:1]
        (listed,) = (await store.tasks(TaskQuery("box", history_length=0))).views
        assert listed == story.view
        assert await store.forget_sends(before=LATER) == 0
        assert list(await store.audit_last(1)) == []
        assert await store.compact(max_bytes=1024) == 0
