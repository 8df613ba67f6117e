"""What does a client see of a task, given what happened?

`fold` takes events in order and returns values; it never looks at a clock. A `TaskView` holds everything but output bytes; one
that is folded on for long lets go of the history that is on record (`without_history`), so it stays small.
`status_update`/`artifact_update` make an event's news for streams. The prompt envelope is in every view; `hide_envelopes` takes
it out for requests that did not activate hitl-prompt/v1.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_never

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT, NOTICE, OUTCOME, PROMPT_FACTS, PROMPT_NEWS, REISSUED_AS, RUN_FACTS
from sandboxd.a2a.model import Message, Part, StatusUpdate, Task, TaskState, TaskStatus
from sandboxd.a2a.wire import rfc3339
from sandboxd.hitl.envelope import envelope_json
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Noticed, Rejected, Started, Submitted, Wrote
from sandboxd.tasks.machine import advance
from sandboxd.values import frozen

_News = Submitted | Started | Asked | Answered | Closed | Noticed | Finished | Rejected  # every event but output


@frozen
class ArtifactView:
    """An artifact so far: `size` kept bytes, of which the first `head` came before a cut of `cut` dropped bytes."""

    artifact_id: str
    size: int
    is_complete: bool
    cut: int = 0
    head: int = 0


@frozen
class OpenPrompt:
    """The question that the status message shows; `is_open` is False once its own limit has passed."""

    prompt_id: str
    is_open: bool = True


@frozen
class TaskView:
    """A task as of sequence number `seq` (0: nothing happened yet).

    `earlier`: how many messages of its history came before `history` and are on record alone.
    """

    task_id: str
    context_id: str
    instance: str
    seq: int = 0
    state: TaskState | None = None
    status: TaskStatus | None = None
    history: tuple[Message, ...] = ()
    artifacts: tuple[ArtifactView, ...] = ()
    prompt: OpenPrompt | None = None
    facts: Mapping[str, Any] = attrs.field(factory=dict)
    earlier: int = 0


def fold(view: TaskView, event: Event) -> TaskView:
    """The view after `event`; `IllegalTransition` when it cannot follow."""
    state = advance(view.state, event)
    if isinstance(event, Wrote):
        return _written(view, state, event)
    return attrs.evolve(view, seq=view.seq + 1, state=state, **_changed(view, state, event))


def _written(view: TaskView, state: TaskState, event: Wrote) -> TaskView:
    """Output is most of what is ever folded, so its view is made field by field, in half the time."""
    return TaskView(
        view.task_id,
        view.context_id,
        view.instance,
        view.seq + 1,
        state,
        view.status,
        view.history,
        _with_output(view.artifacts, event),
        view.prompt,
        view.facts,
        view.earlier,
    )


def _changed(view: TaskView, state: TaskState, event: _News) -> dict[str, Any]:
    """The fields that this event changes, beside number and state."""
    match event:
        case Submitted(at=at, message=message):
            return {"status": TaskStatus(state, at), "history": (message,)}
        case Started(at=at, facts=facts):
            return {"status": TaskStatus(state, at), "facts": dict(facts)}
        case Asked(at=at):
            message = _asked_message(view, event)
            prompt = OpenPrompt(event.envelope.prompt_id)
            return {"status": TaskStatus(state, at, message), "history": (*view.history, message), "prompt": prompt}
        case Answered(at=at, message=message):
            status = TaskStatus(state, at, _answered_message(view, event))
            return {"status": status, "history": (*view.history, message), "prompt": None}
        case Closed(at=at):
            still = OpenPrompt(event.prompt_id, is_open=False) if state is TaskState.INPUT_REQUIRED else None
            return {"status": TaskStatus(state, at, _closed_message(view, event)), "prompt": still}
        case Noticed(at=at):
            return {"status": TaskStatus(state, at, _noticed_message(view, event))}
        case Finished(at=at):
            outcome = outcome_of(event)
            metadata: dict[str, Any] = {OUTCOME: outcome}
            if view.prompt and view.prompt.is_open:
                metadata[PROMPT_NEWS] = _ended_news(view.prompt, event)
            message = _agent_message(view, event.message_id, event.summary, metadata)
            return {"status": TaskStatus(state, at, message, outcome), "prompt": None}
        case Rejected(at=at, reasons=reasons):
            listed = [{"field": problem.field, "reason": problem.reason} for problem in reasons]
            text = "Rejected: " + "; ".join(str(problem) for problem in reasons)
            outcome = {"reason": "rejected", "reasons": listed, "summary": text}
            message = _agent_message(view, event.message_id, text, {OUTCOME: outcome})
            return {"status": TaskStatus(state, at, message, outcome)}
        case _:
            assert_never(event)


def holds(view: TaskView, history_length: int | None) -> bool:
    """Whether so much of the latest history is in the view itself (None: all)."""
    return not view.earlier or (history_length is not None and history_length <= len(view.history))


def without_history(view: TaskView, *, written: TaskView | None = None) -> TaskView:
    """The view without the messages that it had by `written`, an earlier state of it that is on record (None: all)."""
    by_then = view if written is None else written
    count = by_then.earlier + len(by_then.history)
    if count <= view.earlier:
        return view
    return attrs.evolve(view, history=view.history[count - view.earlier :], earlier=count)


def status_update(view: TaskView) -> StatusUpdate:
    """The news of a status event that led to this view."""
    assert view.status is not None
    return StatusUpdate(view.task_id, view.context_id, view.status)


def task_of(view: TaskView, *, history_length: int | None = None) -> Task:
    """The task without its artifacts (`artifacts=None`), with at most `history_length` messages (None: all, 0: absent).

    The view must hold as much of its history as is to be shown.
    """
    assert view.status is not None
    assert holds(view, history_length)
    history: tuple[Message, ...] | None = view.history
    if history_length is not None:
        history = view.history[-history_length:] if history_length else None
    metadata = {RUN_FACTS: {"instance": view.instance, **view.facts}}
    return Task(view.task_id, view.context_id, view.status, None, history, metadata)


def hide_envelopes(message: Message) -> Message:
    """The message as a request sees it that did not activate hitl-prompt/v1 (MUST NOT emit the envelope)."""
    if not message.metadata or HITL_PROMPT not in message.metadata:
        return message
    kept = {key: value for key, value in message.metadata.items() if key != HITL_PROMPT}
    extensions = tuple(uri for uri in message.extensions if uri != HITL_PROMPT)
    return attrs.evolve(message, metadata=kept or None, extensions=extensions)


def outcome_of(event: Finished) -> dict[str, Any]:
    """What is known about the end, keys that do not apply left out."""
    known = {
        "reason": event.reason,
        "fail_kind": event.fail_kind,
        "exit_code": event.exit_code,
        "signal": event.signal,
        "summary": event.summary,
        **event.detail,
    }
    return {key: value for key, value in known.items() if value is not None}


def _with_output(artifacts: tuple[ArtifactView, ...], event: Wrote) -> tuple[ArtifactView, ...]:
    size = event.offset + event.size
    if event.first:
        return (*artifacts, ArtifactView(event.artifact_id, size, event.last, event.cut, event.offset))
    return tuple(
        _grown(artifact, size, event) if artifact.artifact_id == event.artifact_id else artifact for artifact in artifacts
    )


def _grown(artifact: ArtifactView, size: int, event: Wrote) -> ArtifactView:
    head = event.offset if event.cut else artifact.head
    return ArtifactView(artifact.artifact_id, size, event.last, artifact.cut + event.cut, head)


def _asked_message(view: TaskView, event: Asked) -> Message:
    envelope = event.envelope
    question: dict[str, Any] = {"questionId": envelope.prompt_id}
    if envelope.deadline:
        question["expires"] = rfc3339(envelope.deadline)
    question |= {"answerSchema": envelope.response_schema, "options": list(event.options)}
    metadata: dict[str, Any] = {HITL_PROMPT: envelope_json(envelope), PROMPT_FACTS: dict(event.facts)}
    if event.reissues is not None:
        summary = f"Asked again at the wish of {event.by}, under another id."
        news = {"prompt_id": event.reissues, "closed": "reissued", "at": rfc3339(event.at), "summary": summary}
        metadata[PROMPT_NEWS] = news | {"by": event.by, REISSUED_AS: envelope.prompt_id}
    parts = (Part("text", envelope.prompt), Part("data", question, media_type="application/json"))
    return Message(event.message_id, "agent", parts, view.context_id, view.task_id, metadata, (HITL_PROMPT,))


def _answered_message(view: TaskView, event: Answered) -> Message:
    """Who answered, for everybody else who shows the question; never what."""
    summary = f"Answered by {event.principal}."
    news = {"prompt_id": event.prompt_id, "closed": "answered", "at": rfc3339(event.at), "summary": summary}
    news |= {"by": event.principal, "message_id": event.message.message_id, "enter": event.enter}
    # The event carries no id for a message of ours; a prompt is answered once, so its own id gives one.
    message_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{PROMPT_NEWS}:{event.prompt_id}"))
    return _agent_message(view, message_id, summary, {PROMPT_NEWS: news})


def _closed_message(view: TaskView, event: Closed) -> Message:
    news = {"prompt_id": event.prompt_id, "closed": event.closure, "at": rfc3339(event.at), "summary": event.summary}
    return _agent_message(view, event.message_id, event.summary, {PROMPT_NEWS: news})


def _ended_news(prompt: OpenPrompt, event: Finished) -> dict[str, Any]:
    news = {"prompt_id": prompt.prompt_id, "closed": "ended", "at": rfc3339(event.at), "summary": event.summary}
    news["reason"] = event.reason
    if by := event.detail.get("canceled_by"):
        news["by"] = by
    return news


def _noticed_message(view: TaskView, event: Noticed) -> Message:
    news = {"notice": event.what, "line": event.line, "summary": event.summary, **event.facts}
    return _agent_message(view, event.message_id, event.summary, {NOTICE: news})


def _agent_message(view: TaskView, message_id: str, text: str, metadata: Mapping[str, Any]) -> Message:
    return Message(message_id, "agent", (Part("text", text),), view.context_id, view.task_id, metadata)


def last_change(view: TaskView) -> datetime:
    """When the status last changed: what lists are sorted by."""
    assert view.status is not None
    return view.status.timestamp
