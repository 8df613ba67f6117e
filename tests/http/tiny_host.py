"""A host with a real store and a real feed, whose tasks do what a test tells them to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import attrs
import httpx
import trio

from sandboxd.a2a.model import Message, Part
from sandboxd.http.app import make_app
from sandboxd.http.auth import Gate
from sandboxd.http.doors import Doors
from sandboxd.http.tokens import load_tokens
from sandboxd.live.clock import SystemClock
from sandboxd.live.past import Accepted
from sandboxd.live.recorder import Fate
from sandboxd.operations.host import Host, Instance
from sandboxd.serving.bearer import read_token
from sandboxd.serving.settings import DoorSettings
from sandboxd.store.base import Entry
from sandboxd.store.feed import Feed
from sandboxd.store.sqlite import open_store
from sandboxd.tasks.events import Finished, Submitted
from sandboxd.tasks.view import TaskView
from tests.serving.door_server import CALM, Served, served
from tests.store.story import Story


@attrs.define
class ToldRuns:
    """In the supervisor's place: puts tasks on record, and nothing runs. Only the answers' typing is not real."""

    feed: Feed
    clock: SystemClock
    nursery: trio.Nursery
    answer: Callable[..., Any] | None = None
    stories: dict[str, Story] = attrs.field(factory=dict)
    commands: list[Any] = attrs.field(factory=list)

    def run(self, task_id: str) -> Any:
        return self if self.answer and task_id in self.stories else None

    def foreign_schema_nowait(self, prompt_id: str) -> None:
        return None

    def accepted_nowait(self, prompt_id: str) -> Any:
        fate = Fate()
        fate.settle()
        return Accepted(prompt_id, "m", self.clock.now(), fate)

    def answer_nowait(self, response: Any, message: Any, principal: str, misfits: Any, push: Any) -> Any:
        assert self.answer is not None
        return self.answer(response, message, principal)

    async def submit(self, principal: str, submitted: Entry, view: TaskView, request: Any) -> TaskView:
        self.commands.append(request)
        story = Story(self.feed, view.task_id, instance=view.instance, context_id=view.context_id)
        self.stories[view.task_id] = story
        await story.tell([submitted])
        await story.tell([story.started()])
        return story.view

    def end_nowait(self, task_id: str, ending: Any) -> bool:
        story = self.stories.get(task_id)
        if story is None:
            return False
        event = Finished(self.clock.now(), "m-end", ending.reason, None, "Canceled.", detail=ending.detail)
        self.nursery.start_soon(story.tell, [Entry(event)])
        return True


@attrs.frozen
class Tiny:
    server: Served
    doors: Doors
    runs: ToldRuns
    token: str

    def client(self, **headers: str) -> httpx.AsyncClient:
        """Over TCP, with the token, A2A 1.0."""
        known = {"Authorization": f"Bearer {self.token}", "A2A-Version": "1.0"}
        return httpx.AsyncClient(
            base_url=self.server.url, headers={**known, **headers}, timeout=20, trust_env=False, http2=False
        )

    async def story(self, task_id: str = "task-1", *, instance: str = "box") -> Story:
        """A task that works."""
        story = Story(self.doors.host.feed, task_id, instance=instance)
        self.runs.stories[task_id] = story
        asked = Message("message-1", "user", (Part("text", "do it"),), story.view.context_id, task_id)
        await story.tell([Entry(Submitted(self.runs.clock.now(), asked)), story.started()])
        return story


@contextlib.asynccontextmanager
async def tiny_host(folder: Path, settings: DoorSettings = CALM, *, checks: Any = None) -> AsyncIterator[Tiny]:
    gate = Gate(load_tokens({"tester": folder / "token"}), spawner_pid=lambda: None)
    clock = SystemClock()
    async with open_store(folder / "store.sqlite3") as store, trio.open_nursery() as nursery:
        feed = Feed(store)
        runs = ToldRuns(feed, clock, nursery)
        instances = {
            "box": Instance("box", "/workspace", (("sandbox-agent-runner", ("plan", "assess")),), "none"),
            "other": Instance("other", "/workspace", (), "none"),
        }
        host = Host(instances, "box", store, feed, cast(Any, None), cast(Any, runs), clock, cast(Any, None))
        doors = Doors(host, gate, settings, "0.1.0", checks={"store": store.check} if checks is None else checks)
        async with served(make_app(doors), folder, settings, who=gate.meet, closing=doors.closing) as server:
            yield Tiny(server, doors, runs, read_token(folder / "token"))
        nursery.cancel_scope.cancel()


def message(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}


def rpc(method: str, params: Any = None, call_id: Any = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params if params is not None else {}}
