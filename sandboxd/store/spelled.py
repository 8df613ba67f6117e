"""How is what is stored most put into JSON without an encoder?

A converter makes dicts of a value and an encoder a text of them, which was a tenth of what a short task costs the loop. What
is in every task, or in all that a task writes, is spelled out here: the same text, as a test compares, in a third to two thirds
of the time (measured: output 2.2 us for 6.2, a view 13 for 28, the end of a task 4.2 for 6.7).
Each function gives an object's members without its braces, or a value whole.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from sandboxd.a2a.model import Message, Part, TaskStatus
from sandboxd.tasks.events import Finished, Submitted, Wrote
from sandboxd.tasks.view import ArtifactView, TaskView

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_text = encode_basestring_ascii  # what the encoder spells a text with


def dump(value: Any) -> str:
    """Any JSON value, with the encoder."""
    return _ENCODER.encode(value)


def moment(value: datetime) -> str:
    """A time, as its text."""
    in_utc = value if value.tzinfo is UTC else value.astimezone(UTC)
    return in_utc.isoformat(timespec="microseconds")


def submitted(event: Submitted) -> str:
    """Its members."""
    return f'"at":"{moment(event.at)}","message":{{{message(event.message)}}}'


def wrote(event: Wrote) -> str:
    """Its members."""
    return (
        f'"at":"{moment(event.at)}","artifact_id":{_text(event.artifact_id)},"offset":{event.offset},'
        f'"size":{event.size},"first":{_truth(event.first)},"last":{_truth(event.last)},"cut":{event.cut}'
    )


def finished(event: Finished) -> str:
    """Its members."""
    exit_code = "null" if event.exit_code is None else event.exit_code
    return (
        f'"at":"{moment(event.at)}","message_id":{_text(event.message_id)},"reason":"{event.reason}",'
        f'"fail_kind":{_maybe(event.fail_kind)},"summary":{_text(event.summary)},"exit_code":{exit_code},'
        f'"signal":{_maybe(event.signal)},"detail":{_free(event.detail)}'
    )


def message(said: Message) -> str:
    """Its members."""
    return (
        f'"message_id":{_text(said.message_id)},"role":"{said.role}","parts":[{",".join(map(_part, said.parts))}],'
        f'"context_id":{_maybe(said.context_id)},"task_id":{_maybe(said.task_id)},"metadata":{_free(said.metadata)},'
        f'"extensions":{_texts(said.extensions)},"reference_task_ids":{_texts(said.reference_task_ids)}'
    )


def view(task: TaskView, history: tuple[Message, ...], artifacts: tuple[ArtifactView, ...]) -> str:
    """Its members, with that history and these artifacts, and without what is elsewhere of the history."""
    state = "null" if task.state is None else f'"{task.state.value}"'
    status = "null" if task.status is None else _status(task.status)
    prompt = "null"
    if task.prompt is not None:
        prompt = f'{{"prompt_id":{_text(task.prompt.prompt_id)},"is_open":{_truth(task.prompt.is_open)}}}'
    return (
        f'"task_id":{_text(task.task_id)},"context_id":{_text(task.context_id)},"instance":{_text(task.instance)},'
        f'"seq":{task.seq},"state":{state},"status":{status},'
        f'"history":[{",".join([f"{{{message(said)}}}" for said in history])}],"artifacts":{artifact_list(artifacts)},'
        f'"prompt":{prompt},"facts":{_free(task.facts)}'
    )


def artifact_list(artifacts: tuple[ArtifactView, ...]) -> str:
    """All of them."""
    return f"[{','.join(map(_artifact, artifacts))}]"


def _artifact(artifact: ArtifactView) -> str:
    return (
        f'{{"artifact_id":{_text(artifact.artifact_id)},"size":{artifact.size},"is_complete":{_truth(artifact.is_complete)},'
        f'"cut":{artifact.cut},"head":{artifact.head}}}'
    )


def _status(status: TaskStatus) -> str:
    said = "null" if status.message is None else f"{{{message(status.message)}}}"
    return (
        f'{{"state":"{status.state.value}","timestamp":"{moment(status.timestamp)}","message":{said},'
        f'"outcome":{_free(status.outcome)}}}'
    )


def _part(part: Part) -> str:
    value = base64.b64encode(part.value).decode() if part.kind == "raw" else part.value
    return (
        f'{{"kind":"{part.kind}","value":{_text(value) if type(value) is str else dump(value)},'
        f'"filename":{_maybe(part.filename)},"media_type":{_maybe(part.media_type)},"metadata":{_free(part.metadata)}}}'
    )


def _free(others: Mapping[str, Any] | None) -> str:
    """A JSON object of others, as it is."""
    if others is None:
        return "null"
    return dump(dict(others)) if others else "{}"


def _texts(texts: tuple[str, ...]) -> str:
    return f"[{','.join(map(_text, texts))}]"


def _maybe(text: str | None) -> str:
    return "null" if text is None else _text(text)


def _truth(value: bool) -> str:
    return "true" if value else "false"
