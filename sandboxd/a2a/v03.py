"""How does A2A 0.3 spell messages, tasks and their news?

The kind-tagged JSON of 0.3, as the `messages:send` dialect speaks it: lower-case states, `final` at the end of a turn, and the
outcome's `fail_kind`, `exit_code` and `summary` beside the state. Parts come in tagged with `kind`, tagged with `type`, or
with no tag at all; whatever else differs between those clients is read tolerantly too. `hide` as in `v10`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, assert_never

from sandboxd.a2a.fields import Fields, refuse
from sandboxd.a2a.model import (
    Artifact,
    ArtifactUpdate,
    Message,
    Part,
    Role,
    SendRequest,
    StatusUpdate,
    StreamItem,
    Task,
    TaskStatus,
)
from sandboxd.a2a.wire import rfc3339
from sandboxd.errors import Problem

NOTHING_HIDDEN: Final[frozenset[str]] = frozenset()

_ROLES: Final[dict[str, Role]] = {"user": "user", "ROLE_USER": "user"}  # clients of 0.3's HTTP binding send the second
_BESIDE_THE_STATE: Final = ("fail_kind", "exit_code", "summary")
_CONTENTS: Final = ("text", "data", "file", "raw", "url")


def decode_send(body: Any) -> SendRequest:
    """The body of `messages:send`; `InvalidParams` names every field that is wrong.

    `historyLength` 0 means all: 0.3 clients send it for "not set". Without `blocking` a call blocks.
    """
    problems: list[Problem] = []
    request = Fields(body, "", problems)
    message = request.child("message")
    request.required("message", message)
    configuration = request.child("configuration") or Fields({}, "configuration", problems)
    made = SendRequest(
        message=_message(message) if message else Message("", "user", ()),
        return_immediately=configuration.flag("blocking") is False,
        history_length=configuration.integer("historyLength", 0) or None,
        accepted_output_modes=configuration.texts("acceptedOutputModes"),
        wants_push=configuration.child("pushNotificationConfig") is not None,
        metadata=request.mapping("metadata"),
    )
    refuse("take the message", problems)
    return made


def encode_task(task: Task, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """A Task."""
    spelled: dict[str, Any] = {
        "id": task.id,
        "kind": "task",
        "contextId": task.context_id,
        "status": _encode_status(task.status, hide),
    }
    if task.artifacts is not None:
        spelled["artifacts"] = [_encode_artifact(artifact) for artifact in task.artifacts]
    if task.history is not None:
        spelled["history"] = [encode_message(message, hide=hide) for message in task.history]
    return _with(spelled, metadata=_free(task.metadata))


def encode_stream_item(item: StreamItem, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """One event of a stream: its `kind` says which; `final` ends the turn, also where the task waits for input."""
    match item:
        case Task():
            return encode_task(item, hide=hide)
        case StatusUpdate():
            spelled = {
                "kind": "status-update",
                "taskId": item.task_id,
                "contextId": item.context_id,
                "final": item.status.state.is_terminal or item.status.state.is_interrupted,
                "status": _encode_status(item.status, hide),
            }
            return _with(spelled, metadata=_free(item.metadata))
        case ArtifactUpdate():
            spelled = {
                "kind": "artifact-update",
                "taskId": item.task_id,
                "contextId": item.context_id,
                "artifact": _encode_artifact(item.artifact),
                "append": item.append,
                "lastChunk": item.last_chunk,
            }
            return _with(spelled, metadata=_free(item.metadata))
        case _:
            assert_never(item)


def encode_message(message: Message, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """A Message."""
    return _with(
        {"kind": "message", "messageId": message.message_id, "role": message.role},
        taskId=message.task_id,
        contextId=message.context_id,
        parts=[_encode_part(part) for part in message.parts],
        metadata={key: value for key, value in (message.metadata or {}).items() if key not in hide},
        extensions=[uri for uri in message.extensions if uri not in hide],
        referenceTaskIds=list(message.reference_task_ids),
    )


def _message(fields: Fields) -> Message:
    return Message(
        message_id=fields.required("messageId", fields.identifier("messageId")) or "",
        role=fields.required("role", fields.enum("role", _ROLES, {})) or "user",
        parts=tuple(_part(part) for part in fields.children("parts")),
        context_id=fields.token("contextId"),
        task_id=fields.identifier("taskId"),
        metadata=fields.mapping("metadata"),
        extensions=fields.texts("extensions"),
        reference_task_ids=fields.texts("referenceTaskIds"),
    )


def _part(fields: Fields) -> Part:
    metadata = fields.mapping("metadata")
    match _kind(fields):
        case "text":
            return Part("text", _string(fields, "text"), None, _media_type(fields), metadata)
        case "data":
            if not fields.has("data"):
                fields.problem("data", "is required")
            return Part("data", fields.take("data"), None, _media_type(fields), metadata)
        case "file":
            file = fields.child("file")
            if file is None:
                fields.problem("file", "is required")
                return Part("text", "")
            return _file(file, file.text("name"), metadata)
        case "raw" | "url":
            return _file(fields, fields.text("filename"), metadata)
        case _:
            return Part("text", "")


def _kind(fields: Fields) -> str | None:
    """What the part's tag says, or what the part holds where it has no tag."""
    tags = [tag for tag in (fields.take("kind"), fields.take("type")) if tag is not None]
    if tags and tags[0] != tags[-1]:
        fields.problem("kind", "says something else than `type`")
        return None
    if tags:
        if tags[0] in ("text", "data", "file"):
            return str(tags[0])
        fields.problem("kind" if fields.has("kind") else "type", "must be one of `text`, `data`, `file`")
        return None
    present = [kind for kind in _CONTENTS if (fields.has(kind) if kind == "data" else fields.take(kind) is not None)]
    if len(present) == 1:
        return present[0]
    fields.own_problem("needs a `kind`, or exactly one of `text`, `data`, `file`")
    return None


def _file(fields: Fields, name: str | None, metadata: Mapping[str, Any] | None) -> Part:
    """A file from `bytes` or `uri` (0.3), `fileWithBytes` or `fileWithUri` (0.3's proto), `raw` or `url` (1.0)."""
    present = [key for key in ("bytes", "uri", "fileWithBytes", "fileWithUri", "raw", "url") if fields.take(key) is not None]
    if len(present) != 1:
        fields.own_problem("needs exactly one of `bytes` and `uri`")
        return Part("text", "")
    if present[0] in ("bytes", "fileWithBytes", "raw"):
        return Part("raw", fields.base64(present[0]), name, _media_type(fields), metadata)
    url = fields.text(present[0])
    fields.required(present[0], url)
    return Part("url", url, name, _media_type(fields), metadata)


def _string(fields: Fields, name: str) -> str:
    value = fields.take(name)
    if isinstance(value, str):
        return value
    fields.problem(name, "is required" if value is None else "must be a string")
    return ""


def _media_type(fields: Fields) -> str | None:
    return fields.text("mimeType") or fields.text("mediaType")


def _encode_status(status: TaskStatus, hide: frozenset[str]) -> dict[str, Any]:
    spelled = {"state": status.state.value, "timestamp": rfc3339(status.timestamp)}
    outcome = status.outcome or {}
    spelled |= {name: outcome[name] for name in _BESIDE_THE_STATE if outcome.get(name) is not None}
    return _with(spelled, message=encode_message(status.message, hide=hide) if status.message else None)


def _encode_artifact(artifact: Artifact) -> dict[str, Any]:
    return _with(
        {"artifactId": artifact.artifact_id},
        name=artifact.name,
        description=artifact.description,
        parts=[_encode_part(part) for part in artifact.parts],
        metadata=_free(artifact.metadata),
        extensions=list(artifact.extensions),
    )


def _encode_part(part: Part) -> dict[str, Any]:
    """0.3 has a media type for files alone, and only objects as data: another value is wrapped as `{"value": …}`."""
    spelled: dict[str, Any]
    match part.kind:
        case "text":
            spelled = {"kind": "text", "text": part.value}
        case "data":
            spelled = {"kind": "data", "data": part.value if isinstance(part.value, Mapping) else {"value": part.value}}
        case "raw":
            content = {"bytes": base64.b64encode(part.value).decode()}
            spelled = {"kind": "file", "file": _with(content, mimeType=part.media_type, name=part.filename)}
        case "url":
            spelled = {"kind": "file", "file": _with({"uri": part.value}, mimeType=part.media_type, name=part.filename)}
        case _:
            assert_never(part.kind)
    return _with(spelled, metadata=_free(part.metadata))


def _free(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return dict(metadata) if metadata else None


def _with(spelled: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return spelled | {name: value for name, value in optional.items() if value}
