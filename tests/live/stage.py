"""A supervisor on a real spawner and a real store, and a way to follow what its runs do."""

from __future__ import annotations

import itertools
import os
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from sandboxd import packs
from sandboxd.a2a.model import Message, Part, TaskState
from sandboxd.detect.load import load_pack
from sandboxd.hitl.envelope import Response
from sandboxd.live.clock import Clock, SystemClock
from sandboxd.live.past import Accepted
from sandboxd.live.quota import Quota
from sandboxd.live.run import TaskRun
from sandboxd.live.supervisor import Supervisor
from sandboxd.policy.adapter import AdapterCommand
from sandboxd.runner.client import open_spawner
from sandboxd.runner.protocol import InstanceSetup, RunRequest, SpawnerSetup
from sandboxd.store.base import Entry, Store, StoredEvent, StoreUnavailable
from sandboxd.store.feed import Feed
from sandboxd.store.sqlite import SqliteStore, open_store
from sandboxd.tasks.events import Asked, Event, Finished, Rejected, Started, Submitted, Wrote
from sandboxd.tasks.view import TaskView

T = TypeVar("T")
POLICY = """
format = 1
adapter = "{adapter}"

[command]
program = "{adapter}"
argv = ["{adapter}", "{{script}}"]
terminal = "{terminal}"

[command.env]
PATH = "/usr/local/bin:/usr/bin:/bin"
TERM = "xterm-256color"

[hole.mode]
one-of = ["plan", "assess"]

[hole.script]
path-under = ["."]
{more}
"""
PROGRAMS = {"python": "/usr/bin/python3", "bash": "/bin/bash"}


class FlakyStore(SqliteStore):
    """A real store whose disk can be taken away: while `is_down`, nothing is written."""

    is_down = False
    refused = 0

    async def _write(self, work: Callable[[sqlite3.Connection], T], size_bytes: int = 0) -> T:
        if self.is_down:
            self.refused += 1
            await trio.lowlevel.checkpoint()
            raise StoreUnavailable("cannot write the store: the disk is full")
        return await super()._write(work, size_bytes)


@attrs.define
class Stage:
    """One instance, `stage`, whose policies run any script of its folder with python or bash."""

    root: Path
    store: FlakyStore
    feed: Feed
    supervisor: Supervisor
    _names: Any = attrs.field(factory=itertools.count)

    async def start(
        self, text: str, adapter: str = "python", *, text_line: bool = True, timeout_s: int = 30, script: str | None = None
    ) -> tuple[str, Callable[[], TaskRun]]:
        """Run that script: the task's id, and a way to its run."""
        if script is None:
            script = f"script-{next(self._names)}"
            (self.root / script).write_text(text)
        message = Message(str(uuid.uuid4()), "user", (Part("text", "go"),))
        command = AdapterCommand(adapter, "plan", (adapter, script), timeout_s=timeout_s, text_line=text_line)
        view = TaskView(str(uuid.uuid4()), "context", "stage")
        request = RunRequest(view.task_id, "context", "stage", command, "go")
        submitted = Submitted(SystemClock().now(), message)
        await self.supervisor.submit("tester", Entry(submitted), view, request)

        def run() -> TaskRun:
            found = self.supervisor.run(view.task_id)
            assert found is not None
            return found

        return view.task_id, run

    async def until(self, task_id: str, what: Callable[[Event], bool], *, after: int = 0, seconds: float = 10.0) -> StoredEvent:
        """The first event like that, as a client would hear of it."""
        with trio.fail_after(seconds):
            async with self.feed.subscribe(task_id, after=after) as events:
                async for stored in events:
                    if what(stored.event):
                        return stored
        raise AssertionError("the task ended without it")

    async def started(self, task_id: str) -> None:
        await self.until(task_id, lambda event: isinstance(event, Started))

    async def asked(self, task_id: str, *, after: int = 0) -> tuple[Asked, int]:
        """The next question, once it is appended: it is told before that."""
        stored = await self.until(task_id, lambda event: isinstance(event, Asked), after=after)
        assert isinstance(stored.event, Asked)
        await self.store.view(task_id)
        return stored.event, stored.seq

    async def wrote(self, task_id: str, text: bytes) -> None:
        """Until that text is in the kept output."""
        seen = b""
        with trio.fail_after(10):
            async with self.feed.subscribe(task_id, after=0) as events:
                async for stored in events:
                    seen += stored.chunk
                    if text in seen:
                        return
        raise AssertionError(f"the task ended without {text!r}: {seen!r}")

    async def appears(self, name: str) -> None:
        """Until a program has made that file."""
        await comes_true((self.root / name).exists)

    async def ended(self, task_id: str, *, seconds: float = 10.0) -> Finished:
        stored = await self.until(task_id, lambda event: isinstance(event, Finished | Rejected), seconds=seconds)
        assert isinstance(stored.event, Finished), stored
        return stored.event

    async def events(self, task_id: str) -> list[StoredEvent]:
        found: list[StoredEvent] = []
        while page := await self.store.events(task_id, after=len(found)):
            found += page
        return found

    async def output(self, task_id: str, artifact_id: str = "terminal") -> bytes:
        events = await self.events(task_id)
        return b"".join(e.chunk for e in events if isinstance(e.event, Wrote) and e.event.artifact_id == artifact_id)

    async def state(self, task_id: str) -> TaskState | None:
        view = await self.store.view(task_id)
        assert view is not None
        return view.state


async def comes_true(condition: Callable[[], object], *, seconds: float = 10.0) -> None:
    """For what has no event: files, processes, counts."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await trio.sleep(0.01)


def answer(run: TaskRun, prompt_id: str, text: str) -> Accepted:
    message = Message(str(uuid.uuid4()), "user", (Part("text", text),))
    return run.answer_nowait(Response(prompt_id, {"text": text}), message, "tester")


@asynccontextmanager
async def open_stage(
    folder: Path,
    *,
    more: str = "",
    terminal: str = "text-line",
    max_tasks: int = 8,
    grace_s: float = 0.5,
    asks_kernel: bool = True,
    clock: Clock | None = None,
) -> AsyncIterator[Stage]:
    """`more`: further lines of both policies. `asks_kernel` False: a question needs nobody who reads, only its looks."""
    root, policies = folder / "stage", folder / "policies"
    root.mkdir()
    policies.mkdir()
    for adapter in PROGRAMS:
        path = policies / f"{adapter}.toml"
        path.write_text(POLICY.format(adapter=adapter, terminal=terminal, more=more))
        path.chmod(0o644)
    names = tuple(str(path) for path in sorted(policies.iterdir()))
    setup = SpawnerSetup(
        (InstanceSetup("stage", str(root), policies=names),), PROGRAMS, cgroup=os.environ.get("SANDBOXD_TEST_CGROUP")
    )
    detectors = {file.name: load_pack(str(file.path), file.text) for file in packs.search("detectors")}
    async with open_store(folder / "state" / "store.sqlite") as opened, open_spawner(setup) as spawner:
        store = FlakyStore(opened._database, opened._files)
        feed = Feed(_as_store(store))
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(
                feed,
                spawner,
                detectors,
                clock or SystemClock(),
                nursery,
                quota=Quota(max_tasks, max_tasks, max_tasks),
                stop_grace_s=grace_s,
                asks_kernel=asks_kernel,
            )
            yield Stage(root, store, feed, supervisor)
            store.is_down = False
            with trio.fail_after(15):
                await supervisor.stop()


def _as_store(store: FlakyStore) -> Store:
    return store
