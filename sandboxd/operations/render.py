"""What of a task does this caller see?

The prompt envelope is shown to requests that activated hitl-prompt/v1 and to nobody else (MUST NOT emit). Output is spelled in
the media types that the request takes (`tasks.output`).
"""

from __future__ import annotations

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.a2a.model import Message, StatusUpdate, Task, TaskNews, TaskStatus
from sandboxd.operations.host import Caller, Host
from sandboxd.store.base import StoredEvent
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.output import artifact_of, artifact_update
from sandboxd.tasks.view import TaskView, hide_envelopes, status_update, task_of


async def task(
    host: Host, caller: Caller, view: TaskView, *, history_length: int | None = None, with_artifacts: bool = True
) -> Task:
    """The whole task as of `view`, its artifacts with the bytes that were kept by then."""
    shown = task_of(view, history_length=history_length)
    artifacts = None
    if with_artifacts:
        kept = [
            (artifact, await host.store.read(view.task_id, artifact.artifact_id, 0, artifact.size))
            for artifact in view.artifacts
        ]
        artifacts = tuple(artifact_of(artifact, data, caller.modes) for artifact, data in kept)
    history = tuple(_message(caller, message) for message in shown.history) if shown.history is not None else None
    return attrs.evolve(shown, artifacts=artifacts, history=history, status=_status(caller, shown.status))


def update(caller: Caller, view: TaskView, stored: StoredEvent) -> TaskNews:
    """The news of one event; `view` is the task right after it."""
    if isinstance(stored.event, Wrote):
        return artifact_update(view, stored.event, stored.chunk, caller.modes)
    news: StatusUpdate = status_update(view)
    return attrs.evolve(news, status=_status(caller, news.status))


def _status(caller: Caller, status: TaskStatus) -> TaskStatus:
    return attrs.evolve(status, message=_message(caller, status.message)) if status.message else status


def _message(caller: Caller, message: Message) -> Message:
    return message if HITL_PROMPT in caller.extensions else hide_envelopes(message)
