"""Is a question that is told before it is appended never lost, doubled, or unknown to whoever reads?"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import attrs
import pytest
import trio
import trio.testing

from sandboxd.a2a.model import Message, Part, TaskState
from sandboxd.db.database import Database
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.live.recorder import Recorder
from sandboxd.store.base import Entry, StoredEvent, StoreUnavailable, TaskQuery
from sandboxd.store.feed import Feed
from sandboxd.store.files import Files
from sandboxd.store.recovery import recover
from sandboxd.store.sqlite import open_store
from sandboxd.tasks.events import Answered, Asked, Event, Finished, Started, Submitted, Wrote
from sandboxd.tasks.view import TaskView, fold
from tests.live.stage import FlakyStore, comes_true

AT = datetime(2026, 1, 1, tzinfo=UTC)
T = TypeVar("T")
FINISHED = Finished(AT, "m-end", "exit", None, "done", 0)


def question() -> Asked:
    return Asked(AT, str(uuid.uuid4()), PromptEnvelope(str(uuid.uuid4()), "Go on?", {}, AT), (), {})


@attrs.define
class Scene:
    """A task that has started, whoever writes it, and what a client has heard of it."""

    store: FlakyStore
    feed: Feed
    recorder: Recorder
    heard: list[StoredEvent] = attrs.field(factory=list)

    async def listen(self) -> None:
        async with self.feed.subscribe("task-1", after=0) as events:
            async for stored in events:
                self.heard.append(stored)

    async def foreseen(self, asked: Asked) -> None:
        """Foresee it, until the store has it."""
        self.recorder.foresee(asked)
        await self.keeps(asked)
        await comes_true(lambda: self.recorder._kept is not None)  # and it knows that
        await self.is_quiet()

    async def is_quiet(self) -> None:
        """Until whoever listens has read all that is on record and waits for news: a read would wait for what is told."""
        limiter = self.store._database._readers._limiter
        with trio.fail_after(10):
            await trio.testing.wait_all_tasks_blocked()
            while limiter.borrowed_tokens:
                await trio.sleep(0.01)  # a thread tells of its end by itself
                await trio.testing.wait_all_tasks_blocked()

    async def keeps(self, event: Event | None) -> None:
        """Until the store has that and nothing else as foreseen."""
        with trio.fail_after(10):
            while True:
                if [task.foreseen for task in await self.store.unfinished()] == [event]:
                    return
                await trio.sleep(0.01)

    def has_heard(self, event: Event) -> bool:
        return event in [stored.event for stored in self.heard]

    async def log(self) -> list[Event]:
        return [stored.event for stored in await self.store.events("task-1", after=0)]

    @asynccontextmanager
    async def slow_disk(self) -> AsyncIterator[None]:
        """What is written meanwhile waits for the end of this."""
        gate, is_waiting = threading.Event(), threading.Event()

        def wait(_: object) -> None:
            is_waiting.set()
            gate.wait(10)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.store._write, wait)
            await comes_true(is_waiting.is_set)
            try:
                yield
            finally:
                gate.set()


@asynccontextmanager
async def open_scene(path: Path, kind: type[FlakyStore] = FlakyStore) -> AsyncIterator[Scene]:
    async with open_store(path) as opened:
        store = kind(opened._database, opened._files)
        feed = Feed(store)
        submitted = Submitted(AT, Message("m-1", "user", (Part("text", "go"),)))
        view = fold(TaskView("task-1", "context-1", "stage"), submitted)
        await feed.create("tester", [Entry(submitted)], view)
        scene = Scene(store, feed, Recorder(feed, view))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.recorder.write)
            nursery.start_soon(scene.listen)
            await scene.recorder.record(Started(AT, {})).fate.committed()
            yield scene
            store.is_down = False
            scene.recorder.record(FINISHED)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_scene(tmp_path / "state" / "store.sqlite") as opened:
        yield opened


async def test_it_is_heard_at_once_and_whoever_reads_then_is_shown_it(scene: Scene):
    asked = question()
    views: list[TaskView | None] = []
    joined: list[StoredEvent] = []
    await scene.foreseen(asked)
    assert not scene.has_heard(asked)

    async def read() -> None:
        views.append(await scene.store.view("task-1"))

    async def join() -> None:
        async with scene.feed.subscribe("task-1", after=2) as events:
            async for stored in events:
                joined.append(stored)
                return

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, scene.slow_disk():
            ticket = scene.recorder.record(asked)
            await comes_true(lambda: scene.has_heard(asked))
            nursery.start_soon(read)
            nursery.start_soon(join)
            await trio.testing.wait_all_tasks_blocked()
            assert not views
            assert not joined
        await ticket.fate.committed()

    assert [(view.seq, view.state) for view in views if view] == [(3, TaskState.INPUT_REQUIRED)]
    assert joined == [StoredEvent(3, asked)]
    await trio.testing.wait_all_tasks_blocked()
    assert [stored.seq for stored in scene.heard] == [1, 2, 3]


async def test_an_answer_to_it_stands_behind_it(scene: Scene):
    asked = question()
    await scene.foreseen(asked)
    async with scene.slow_disk():
        scene.recorder.record(asked)
        await comes_true(lambda: scene.has_heard(asked))
        answered = Answered(AT, asked.envelope.prompt_id, Message("m-2", "user", (Part("text", "y"),)), "tester")
        ticket = scene.recorder.record(answered)
        await trio.testing.wait_all_tasks_blocked()
        assert not scene.has_heard(answered)
    await ticket.fate.committed()
    await comes_true(lambda: scene.has_heard(answered))

    assert (await scene.log())[2:] == [asked, answered]
    assert [stored.seq for stored in scene.heard] == [1, 2, 3, 4]


async def test_asked_before_the_store_has_kept_it_it_is_not_told_until_that_has(scene: Scene):
    asked = question()
    async with scene.slow_disk():
        scene.recorder.foresee(asked)
        await trio.testing.wait_all_tasks_blocked()
        ticket = scene.recorder.record(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert not scene.has_heard(asked)
    await ticket.fate.committed()

    assert (await scene.log())[2:] == [asked]


async def test_what_the_store_could_not_keep_is_told_when_it_is_appended(scene: Scene):
    asked = question()
    scene.store.is_down = True
    scene.recorder.foresee(asked)
    await comes_true(lambda: scene.store.refused == 1)
    ticket = scene.recorder.record(asked)
    await comes_true(lambda: scene.store.refused > 1)
    assert not scene.has_heard(asked)
    assert (await scene.store.view("task-1")) is not None
    scene.store.is_down = False
    await ticket.fate.committed()

    assert (await scene.log())[2:] == [asked]


async def test_when_its_append_fails_it_stays_on_disk_until_that_is_done(scene: Scene):
    asked = question()
    await scene.foreseen(asked)
    scene.store.is_down = True
    ticket = scene.recorder.record(asked)
    await comes_true(lambda: scene.store.refused > 1)

    assert scene.has_heard(asked)
    with pytest.raises(StoreUnavailable, match=r"told already: .*the disk is full"):
        await scene.store.view("task-1")
    with pytest.raises(StoreUnavailable, match=r"told already: .*the disk is full"):
        await scene.store.tasks(TaskQuery("stage"))
    assert [task.foreseen for task in await scene.store.unfinished()] == [asked]
    scene.store.is_down = False
    await ticket.fate.committed()
    assert (await scene.log())[2:] == [asked]
    assert [stored.seq for stored in scene.heard] == [1, 2, 3]


async def test_of_a_question_that_is_not_asked_nothing_is_left(scene: Scene):
    await scene.foreseen(question())
    scene.recorder.unforesee()
    await scene.keeps(None)

    assert len(await scene.log()) == len(scene.heard) == 2


async def test_what_happens_before_it_is_asked_comes_first(scene: Scene):
    asked = question()
    await scene.foreseen(asked)
    wrote = Wrote(AT, "stdout", 0, 1, first=True, last=False)
    async with scene.slow_disk():
        scene.recorder.record(wrote, b"x")
        ticket = scene.recorder.record(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert len(scene.heard) == 2
    await ticket.fate.committed()

    assert (await scene.log())[2:] == [wrote, asked]


async def test_when_its_writer_ends_in_between_nobody_is_shown_less_until_somebody_resolves_the_task(scene: Scene):
    asked, view = question(), scene.recorder.view
    dying = Recorder(scene.feed, view)
    said: list[Asked] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dying.write)
        dying.foresee(asked)
        await scene.keeps(asked)
        await comes_true(lambda: dying._kept is not None)
        await scene.is_quiet()
        dying.record(asked, then=lambda: said.append(asked))
        nursery.cancel_scope.cancel()
    await comes_true(lambda: scene.has_heard(asked))

    with pytest.raises(StoreUnavailable, match="told already"):
        await scene.store.view("task-1")
    assert said == []
    (task,) = await scene.store.unfinished("task-1")
    assert task.foreseen == asked
    await scene.recorder.record(asked, then=lambda: said.append(asked)).fate.committed()
    assert (await scene.log())[2:] == [asked]
    assert said == [asked]


class CutStore(FlakyStore):
    """Leaves a copy of its files at each moment at which a daemon may be killed, with what was heard until then."""

    def __init__(self, database: Database, files: Files) -> None:
        super().__init__(database, files)
        self.heard: list[StoredEvent] = []
        self.cuts: list[tuple[Path, list[StoredEvent]]] = []

    async def _write(self, work: Callable[[sqlite3.Connection], T], size_bytes: int = 0) -> T:
        await self._cut()
        value = await super()._write(work, size_bytes)
        await self._cut()
        return value

    async def _cut(self) -> None:
        for _ in range(10):  # whoever listens hears what was published
            await trio.lowlevel.checkpoint()
        state = self._files.folder.parent
        copy = state.with_name(f"cut-{len(self.cuts)}")
        self.cuts.append((copy, self.heard.copy()))
        await trio.to_thread.run_sync(shutil.copytree, state, copy)


async def test_killed_at_any_point_everything_that_was_heard_is_on_record(tmp_path: Path):
    asked = question()
    answered = Answered(AT, asked.envelope.prompt_id, Message("m-2", "user", (Part("text", "y"),)), "tester")
    async with open_scene(tmp_path / "state" / "store.sqlite", CutStore) as scene:
        assert isinstance(scene.store, CutStore)
        scene.store.heard = scene.heard
        recorder = scene.recorder
        await scene.foreseen(question())
        recorder.unforesee()
        await scene.keeps(None)
        await scene.foreseen(asked)
        recorder.record(asked)
        await recorder.record(answered).fate.committed()
        await scene.foreseen(question())
        await recorder.record(Wrote(AT, "stdout", 0, 1, first=True, last=False), b"x").fate.committed()
        last = question()
        await scene.foreseen(last)
        await recorder.record(last).fate.committed()

    told_ahead = 0
    for copy, heard in scene.store.cuts:
        async with open_store(copy / "store.sqlite") as store:
            told_ahead += len(heard) > len(await store.events("task-1", after=0))
            await recover(Feed(store), AT, lambda: "m-recovered")
            log = await store.events("task-1", after=0)
        assert list(log[: len(heard)]) == heard
        assert [stored.seq for stored in log] == list(range(1, len(log) + 1))
        assert not log or isinstance(log[-1].event, Finished)
    assert told_ahead >= 2
