"""What does a caller see of its task?

A2A 1.0, in words of our own: of whoever does the work neither its words, its ids nor its place; of what it left the texts
alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.a2a.model import Artifact, Message, Part, Task, TaskState, TaskStatus
from sandboxd.cockpit.relay.desk import Story
from sandboxd.cockpit.relay.rows import RelayQuestion
from sandboxd.hitl.envelope import PromptEnvelope, envelope_json

_WORDS: Final[Mapping[str, tuple[TaskState, str]]] = {
    "starting": (TaskState.SUBMITTED, ""),
    "running": (TaskState.WORKING, ""),
    "awaiting-approval": (TaskState.WORKING, "It waits for an answer that is given elsewhere."),
    "paused": (TaskState.WORKING, "It is held until somebody here has looked at it."),
    "failed": (TaskState.FAILED, "The command failed, or could not be run."),
    "cancelled": (TaskState.CANCELED, "It was cancelled."),
    "completed": (TaskState.COMPLETED, "The command completed."),
}

_NO_ANSWER: Final = "No valid answer came to one of its questions."


def task_of(story: Story, now: datetime, *, active: bool, artifacts: tuple[Artifact, ...] | None = None) -> Task:
    """The task as it stands. `active`: the request activated hitl-prompt/v1, so the envelope is shown."""
    return Task(story.task.task_id, story.task.context_id, status_of(story, now, active=active), artifacts)


def status_of(story: Story, now: datetime, *, active: bool) -> TaskStatus:
    """Its state, since when, and what is said of it."""
    mission, asks = story.kept.mission, story.asks
    if asks is not None and now < asks.ends_at and not story.is_final:
        return TaskStatus(TaskState.INPUT_REQUIRED, asks.at, _question(story, asks, active=active))
    if story.task.gave_up_at is not None:
        return TaskStatus(TaskState.FAILED, story.task.gave_up_at, _message(story, "gave-up", _NO_ANSWER))
    state, text = _WORDS[mission.standing.state]
    at = mission.ended_at or max((one.at for one in story.questions), default=story.task.at)
    return TaskStatus(state, at, _message(story, f"state:{mission.standing.state}", text) if text else None)


def artifacts_of(left: Sequence[Mapping[str, Any]]) -> tuple[Artifact, ...]:
    """The texts that a task left, numbered; names, ids and metadata are its own affair."""
    texts = []
    for one in left:
        parts = one.get("parts")
        listed = [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
        text = "".join(piece for piece in listed if isinstance(piece, str))
        if text:
            texts.append(text)
    return tuple(
        Artifact(f"result-{number}", (Part("text", text, media_type="text/plain"),)) for number, text in enumerate(texts, 1)
    )


def mark_of(story: Story) -> tuple[str, str]:
    """What has to differ for a caller to be told anew."""
    state = "gave-up" if story.task.gave_up_at is not None else story.kept.mission.standing.state
    return state, story.asks.prompt_id if story.asks else ""


def _question(story: Story, asks: RelayQuestion, *, active: bool) -> Message:
    envelope = PromptEnvelope(asks.prompt_id, asks.restated.text, asks.restated.schema, asks.ends_at)
    metadata = {HITL_PROMPT: envelope_json(envelope)} if active else None
    return _message(story, f"asks:{asks.prompt_id}", asks.restated.text, metadata)


def _message(story: Story, name: str, text: str, metadata: Mapping[str, Any] | None = None) -> Message:
    task = story.task
    message_id = str(uuid.uuid5(uuid.UUID(task.task_id), name))  # the same whenever it is shown
    extensions = (HITL_PROMPT,) if metadata else ()
    return Message(message_id, "agent", (Part("text", text),), task.context_id, task.task_id, metadata, extensions)
