"""What happens to a task in tests: a teller of events with their fold."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sandboxd.a2a.model import Message, Part
from sandboxd.errors import Problem
from sandboxd.hitl.answer import AnswerForm, response_schema
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.store.base import Entry, Store
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Rejected, Started, Submitted, Wrote
from sandboxd.tasks.view import TaskView, fold

NOON = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


class Story:
    """One task: each verb appends an event to the store and folds it; `view` is what the store should say."""

    def __init__(
        self, store: Store | Any, task_id: str = "task-1", *, instance: str = "box", context_id: str = "context"
    ) -> None:
        self.store = store
        self.view = TaskView(task_id, context_id, instance)
        self.events: list[Event] = []
        self.now = NOON

    @property
    def seq(self) -> int:
        return self.view.seq

    async def tell(self, entries: Iterable[Entry]) -> None:
        told = list(entries)
        view, after = self.view, self.view.seq
        for entry in told:
            view = fold(view, entry.event)
        if after:
            await self.store.append(told, view, after=after)
        else:
            await self.store.create("alice", told, view)
        self.view = view
        self.events += [entry.event for entry in told]

    async def begin(self) -> Story:
        await self.tell([self.submitted()])
        await self.tell([self.started()])
        return self

    async def write(self, chunk: bytes, artifact_id: str = "terminal", *, last: bool = False, cut: int = 0) -> None:
        await self.tell([self.wrote(chunk, artifact_id, last=last, cut=cut)])

    async def ask(self, prompt_id: str | None = None) -> str:
        asked = self.asked(prompt_id)
        await self.tell([Entry(asked)])
        return asked.envelope.prompt_id

    async def answer(self, prompt_id: str, message_id: str = "answer-1") -> None:
        await self.tell([Entry(Answered(self._tick(), prompt_id, user_message(message_id, "y"), "bob"))])

    async def finish(self) -> None:
        await self.tell([self.finished()])

    def submitted(self, message_id: str = "message-1") -> Entry:
        return Entry(Submitted(self._tick(), user_message(message_id, "do it")))

    def started(self) -> Entry:
        return Entry(Started(self._tick(), {"policy": "p", "limits": {"timeout_s": 300}, "argv": ["a", None, 1.5, True]}))

    def wrote(self, chunk: bytes, artifact_id: str = "terminal", *, last: bool = False, cut: int = 0) -> Entry:
        known = {artifact.artifact_id: artifact.size for artifact in self.view.artifacts}
        first = artifact_id not in known
        return Entry(Wrote(self._tick(), artifact_id, known.get(artifact_id, 0), len(chunk), first, last, cut), chunk)

    def asked(self, prompt_id: str | None = None) -> Asked:
        now = self._tick()
        envelope = PromptEnvelope(
            prompt_id or str(uuid.uuid4()), "Proceed? [y/N]", response_schema(AnswerForm()), now + timedelta(seconds=60)
        )
        return Asked(now, f"asked-{self.seq}", envelope, ("y", "n"), {"rule": "shell.yes-no", "evidence": {"settle_s": 0.2}})

    def closed(self, prompt_id: str, closure: Any) -> Entry:
        return Entry(Closed(self._tick(), f"closed-{self.seq}", prompt_id, closure, "gone"))

    def finished(self) -> Entry:
        return Entry(Finished(self._tick(), f"finished-{self.seq}", "exit", None, "It exited with 0.", 0))

    def rejected(self) -> Entry:
        return Entry(Rejected(self._tick(), f"rejected-{self.seq}", (Problem("argv", "no"), Problem("", "nor this", "type"))))

    def _tick(self) -> datetime:
        self.now += timedelta(milliseconds=10)
        return self.now


def user_message(message_id: str, text: str) -> Message:
    parts = (Part("text", text), Part("raw", b"\x00\xff", "f.bin"), Part("data", {"k": [1, None]}))
    return Message(message_id, "user", parts, metadata={"urn:x": {"deep": [1, {"a": "\ud800"}]}})
