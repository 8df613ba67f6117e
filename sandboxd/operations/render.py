"""What of a task does this caller see?

The prompt envelope is shown to requests that activated hitl-prompt/v1 and to nobody else (MUST NOT emit). Output is spelled in
the media types that the request takes (`tasks.output`).
"""

from __future__ import annotations

from typing import Final

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.a2a.model import Message, StatusUpdate, Task, TaskNews, TaskStatus
from sandboxd.errors import NotReady, TooBusy
from sandboxd.operations.host import Caller, Host, not_found
from sandboxd.operations.unsent import WAIT_S
from sandboxd.store.base import StoredEvent
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.output import artifact_of, artifact_update
from sandboxd.tasks.view import TaskView, hide_envelopes, status_update, task_of

MESSAGE_BYTES: Final = 2048  # about what a question of the history takes, spelled
ACTED_WAIT_S: Final = 60.0  # twice the patience with a client that takes nothing


async def task(
    host: Host,
    caller: Caller,
    view: TaskView,
    *,
    history_length: int | None = None,
    with_artifacts: bool = True,
    has_acted: bool = False,
) -> Task:
    """The whole task as of `view`, its artifacts with the bytes that were kept by then.

    `TooBusy` when too much waits for clients already. `has_acted`: the request has done something, so to ask again is not the
    same; it waits longer, and is told so: `NotReady`.
    """
    shown = task_of(await _with_history(host, view, history_length), history_length=history_length)
    artifacts = None
    if with_artifacts:
        await _make_room(host, caller, view, len(shown.history or ()), has_acted=has_acted)
        kept = [
            (artifact, await host.store.read(view.task_id, artifact.artifact_id, 0, artifact.size))
            for artifact in view.artifacts
        ]
        artifacts = tuple(artifact_of(artifact, data, caller.modes) for artifact, data in kept)
    history = tuple(_message(caller, message) for message in shown.history) if shown.history is not None else None
    return attrs.evolve(shown, artifacts=artifacts, history=history, status=_status(caller, shown.status))


async def _with_history(host: Host, view: TaskView, length: int | None) -> TaskView:
    if not view.earlier or length == 0:
        return view
    said = await host.store.history(view.task_id, view.earlier)
    if len(said) < view.earlier:  # pruned meanwhile, with its task
        raise not_found(view.task_id)
    return attrs.evolve(view, history=(*said, *view.history), earlier=0)


async def _make_room(host: Host, caller: Caller, view: TaskView, messages: int, *, has_acted: bool) -> None:
    size_bytes = sum(artifact.size for artifact in view.artifacts) + MESSAGE_BYTES * messages
    try:
        await host.unsent.take(caller.principal, size_bytes, wait_s=ACTED_WAIT_S if has_acted else WAIT_S)
    except TooBusy as refusal:
        if not has_acted:
            raise
        facts = {**refusal.facts, "taskId": view.task_id}
        why = f"{refusal.message}; the request was acted on, do not send it again, get task `{view.task_id}` instead"
        raise NotReady(why, facts=facts) from refusal


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
