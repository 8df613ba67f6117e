"""What of a task does this caller see?

The prompt envelope is shown to requests that activated hitl-prompt/v1 and to nobody else (MUST NOT emit). Output is spelled in
the media types that the request takes (`tasks.output`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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
from sandboxd.tasks.view import ArtifactView, TaskView, hide_envelopes, holds, status_update, task_of

MESSAGE_BYTES: Final = 2048  # about what a question of the history takes, spelled
_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})
ACTED_WAIT_S: Final = 60.0  # twice the patience with a client that takes nothing


async def task(
    host: Host,
    caller: Caller,
    view: TaskView,
    *,
    history_length: int | None = None,
    with_artifacts: bool = True,
    has_acted: bool = False,
    fresh: Mapping[str, bytes] = _NOTHING,
) -> Task:
    """The whole task as of `view`, its artifacts with the bytes that were kept by then.

    `fresh`: whole artifacts that this request has put on record itself, by id; a look at the disk is a tenth of a short send.

    `TooBusy` when too much waits for clients already. `has_acted`: the request has done something, so to ask again is not the
    same; it waits longer, and is told so: `NotReady`.
    """
    if with_artifacts:
        await _make_room(host, caller, view, history_length, has_acted=has_acted)
    shown = task_of(await _with_history(host, view, history_length), history_length=history_length)
    artifacts = None
    if with_artifacts:
        artifacts = tuple(
            [artifact_of(artifact, await _output(host, view, artifact, fresh), caller.modes) for artifact in view.artifacts]
        )
    history = tuple(_message(caller, message) for message in shown.history) if shown.history is not None else None
    return Task(shown.id, shown.context_id, _status(caller, shown.status), artifacts, history, shown.metadata)


async def _with_history(host: Host, view: TaskView, length: int | None) -> TaskView:
    if holds(view, length):
        return view
    said = await host.store.history(view.task_id, view.earlier)
    if len(said) < view.earlier:  # pruned meanwhile, with its task
        raise not_found(view.task_id)
    return attrs.evolve(view, history=(*said, *view.history), earlier=0)


async def _output(host: Host, view: TaskView, artifact: ArtifactView, fresh: Mapping[str, bytes]) -> bytes:
    if (data := fresh.get(artifact.artifact_id)) is not None:
        return data
    return await host.store.read(view.task_id, artifact.artifact_id, 0, artifact.size)


async def _make_room(host: Host, caller: Caller, view: TaskView, history_length: int | None, *, has_acted: bool) -> None:
    messages = view.earlier + len(view.history)
    if history_length is not None:
        messages = min(messages, history_length)
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
    shown = _message(caller, status.message) if status.message else None
    return status if shown is status.message else attrs.evolve(status, message=shown)


def _message(caller: Caller, message: Message) -> Message:
    return message if HITL_PROMPT in caller.extensions else hide_envelopes(message)
