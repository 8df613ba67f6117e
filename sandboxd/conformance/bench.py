"""What does a scenario do at a door?

One bench a scenario and door: it sends, reads, waits, and at the end cancels what it started. An answer that cannot be read as
the door's version has it fails the scenario that asked.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT, HITL_RESPONSE_FOR
from sandboxd.conformance import sentences
from sandboxd.conformance.codec import Draft, Seen, Unreadable, text_of
from sandboxd.conformance.door import Asked, Came, Refused
from sandboxd.conformance.finding import Judge, clip
from sandboxd.conformance.payload import Answers, BadSchema
from sandboxd.conformance.site import Entrance, Options, Site, headers_of

ADAPTER: Final = "sandbox-agent-runner"  # adapter-command/v1: the first supported adapter
RUNNER: Final = ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
BOTH: Final = (HITL_PROMPT, ADAPTER_COMMAND)
SETTLE_S: Final = 20.0  # how long a target may take to start a command, to notice its question, or to see it end
POLL_S: Final = 0.005  # the resolution of every measured time
CLEAN_UP_S: Final = 10.0

Read = Seen | Refused


class Bench(Judge):
    """A scenario's place at one door."""

    def __init__(self, site: Site, entrance: Entrance, asking: str, *, is_example: bool) -> None:
        super().__init__()
        self.site = site
        self.door = entrance.door
        self.url = entrance.url
        self.asking = asking  # the request that makes the command ask
        self.is_example = is_example  # whether it is the example adapter's, whose exit codes are known
        self._started: list[str] = []

    @property
    def options(self) -> Options:
        """How the run was asked for."""
        return self.site.options

    # ── asking ──

    def ask(self, asked: Asked, *, extensions: Sequence[str] = BOTH) -> Came:
        """One request as it is, and what came."""
        return self.site.line.ask(self.url, asked, headers_of(self.door, (*extensions, *self.site.required)))

    def read(self, came: Came) -> Read:
        """The task in an answer, or the refusal."""
        if came.status == 0:
            self.fail("an answer", sentences.READABLE, came)
        try:
            result = self.door.read(came)
            if isinstance(result, Refused):
                return result
            return self.door.codec.task(result)
        except Unreadable as error:
            self.fail(f"a Task of A2A {self.door.codec.version}", sentences.READABLE, f"{error}; {came}")

    def send(self, draft: Draft, *, extensions: Sequence[str] = BOTH) -> Read:
        """Send a message without waiting for what it leads to."""
        seen = self.read(self.ask(self.door.send(draft, wait=False), extensions=extensions))
        if isinstance(seen, Seen) and seen.id and draft.task_id is None:
            self.own(seen)
        return seen

    def own(self, seen: Seen) -> None:
        """Cancel that task at the end, too."""
        self._started.append(seen.id)

    def get(self, task_id: str, *, extensions: Sequence[str] = BOTH) -> Seen:
        """The task as it stands."""
        seen = self.read(self.ask(self.door.get(task_id), extensions=extensions))
        if isinstance(seen, Refused):
            self.fail("the task that was made", sentences.READABLE, seen)
        return seen

    def wait(
        self,
        seen: Seen,
        until: Callable[[Seen], bool],
        *,
        for_s: float = SETTLE_S,
        extensions: Sequence[str] = BOTH,
    ) -> Seen:
        """The task once that holds, or as it stands when the time is over."""
        ends_at = time.monotonic() + for_s
        while seen.id and not until(seen) and time.monotonic() < ends_at:
            time.sleep(POLL_S * 4)
            seen = self.get(seen.id, extensions=extensions)
        return seen

    @contextmanager
    def follow(
        self, asked: Asked, *, after: str = "", for_s: float = SETTLE_S
    ) -> Iterator[tuple[Came, Iterator[tuple[str, Seen | None]]]]:
        """A stream's head and its (`id:`, task as the event shows it) pairs; None: an event about something else."""
        headers = headers_of(self.door, (*BOTH, *self.site.required)) | ({"Last-Event-ID": after} if after else {})
        with self.site.line.follow(self.url, asked, headers, for_s=for_s) as (came, events):
            yield came, ((number, self._event(value)) for number, value in events)

    def _event(self, value: Any) -> Seen | None:
        try:
            return self.door.codec.task(self.door.read_event(value))
        except Unreadable:
            return None

    # ── commands ──

    def message(self, envelope: Any = ..., text: str = "Run the bounded adapter.") -> Draft:
        """A new message; without an envelope it asks for the echo."""
        metadata = {} if envelope is ... else {ADAPTER_COMMAND: envelope}
        return Draft(str(uuid.uuid4()), text, metadata=metadata)

    def envelope(self, request: str = "", *, mode: Any = "plan", **changes: Any) -> dict[str, Any]:
        """An adapter-command envelope as the spec's own example; `...` leaves a field out."""
        spelled: dict[str, Any] = {
            "adapter": ADAPTER,
            "mode": mode,
            "command": ["node", RUNNER, "--request", request or self.asking],
            "working_dir": "/workspace",
            "timeout_seconds": 120,
            "input_mode": "text-line",
            **changes,
        }
        return {name: value for name, value in spelled.items() if value is not ...}

    def start(self, envelope: Mapping[str, Any]) -> Seen:
        """Send a command that the target is known to run."""
        seen = self.send(self.message(envelope))
        if isinstance(seen, Refused):
            self.fail("the command is dispatched", sentences.VALIDATED, seen)
        return seen

    def prompt(self, **changes: Any) -> Seen:
        """A task of the command that asks, with its first prompt open."""
        seen = self.wait(self.start(self.envelope(**changes)), lambda task: task.asks or task.has_ended)
        self.expect(seen.asks, "the task becomes input-required", sentences.DETECTED, shown(seen))
        self.expect(seen.prompt_id is not None, "the status message holds the envelope", sentences.POPULATED, shown(seen))
        return seen

    # ── answers ──

    def answers(self, seen: Seen) -> Answers:
        """What fits the open prompt's schema, and what does not."""
        assert isinstance(seen.envelope, Mapping)
        try:
            return Answers(seen.envelope.get("response_schema"))
        except BadSchema as error:
            self.fail("a response_schema that can be used", sentences.SCHEMA_2020, str(error))

    def valid(self, seen: Seen) -> dict[str, Any]:
        """An answer that fits the open prompt."""
        payload = self.answers(seen).valid()
        if payload is None:
            self.skip("no answer was found that fits the prompt's schema")
        return payload

    def reply(self, seen: Seen, payload: Any, **changes: Any) -> Draft:
        """The message that answers the open prompt; changes: of `hitl_response_for`, and `task_id`, `context_id`."""
        task_id, context_id = changes.pop("task_id", seen.id), changes.pop("context_id", seen.context_id)
        response = {"prompt_id": seen.prompt_id, "payload": payload, **changes}
        part = payload if isinstance(payload, Mapping) else {}
        return Draft(
            str(uuid.uuid4()),
            payload=part,
            task_id=task_id,
            context_id=context_id or None,
            metadata={HITL_RESPONSE_FOR: response},
        )

    def answer(self, seen: Seen, payload: Any, **changes: Any) -> Read:
        """Answer the open prompt."""
        return self.send(self.reply(seen, payload, **changes))

    def accept(self, seen: Seen, by: sentences.Sentence) -> Seen:
        """Answer the open prompt with what fits, which must be taken."""
        taken = self.answer(seen, self.valid(seen))
        if isinstance(taken, Refused):
            self.fail("the valid response is accepted", by, taken)
        return taken

    def finish_off(self, seen: Seen, by: sentences.Sentence) -> Seen:
        """Answer whatever is asked until the task has ended."""
        ends_at = time.monotonic() + 2 * SETTLE_S
        while not seen.has_ended and time.monotonic() < ends_at:
            asked = seen.prompt_id
            if seen.asks and asked is not None:
                seen = self.accept(seen, by)
            seen = self.wait(seen, partial(_goes_on, asked))
        self.expect(seen.has_ended, "the task ends once everything is answered", by, shown(seen))
        return seen

    def output(self, seen: Seen) -> str:
        """What the command printed, escape sequences taken out; artifacts are read where the door keeps them."""
        said = seen.artifacts
        asked = self.door.artifacts(seen.id) if seen.id and not said else None
        if asked is not None:
            found = self.ask(asked).body
            listed = found.get("artifacts") if isinstance(found, Mapping) else None
            said = "".join(text_of(part) for part in _parts(listed))
        return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", said)

    def words(self, seen: Seen) -> str:
        """All that the agent said: the output and its status message, never the client's own history."""
        return self.output(seen) + seen.said

    def clean_up(self) -> None:
        """Cancel what is still going; whether that works is no part of the verdict."""
        ends_at = time.monotonic() + CLEAN_UP_S
        for task_id in self._started:
            if time.monotonic() > ends_at:
                return
            self.ask(self.door.cancel(task_id))
        self._started.clear()


def shown(seen: Seen) -> str:
    """A task in a finding."""
    told = f"task {seen.id or '(a message)'} is {seen.state}"
    words = (seen.artifacts + seen.said).strip()
    return f"{told}: {clip(words, 300)}" if words else told


def _parts(artifacts: Any) -> Iterator[Mapping[str, Any]]:
    for artifact in artifacts if isinstance(artifacts, list) else []:
        parts = artifact.get("parts") if isinstance(artifact, Mapping) else None
        yield from (part for part in parts or [] if isinstance(part, Mapping))


def _goes_on(asked: str | None, task: Seen) -> bool:
    return task.has_ended or (task.asks and task.prompt_id != asked)
