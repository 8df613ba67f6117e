"""How does A2A 0.3 spell messages, tasks and their news?

Read here is every spelling of 0.3: parts tagged with `kind`, with `type` or not at all, and the ProtoJSON of 0.3's HTTP
binding (`request`, `content`, `ROLE_USER`), in camelCase and in snake_case. Written is the kind-tagged JSON of JSON-RPC and of
the `messages:send` dialect: lower-case states, `final` at the end of a turn, and the outcome's `fail_kind`, `exit_code` and
`summary` beside the state. `v03proto` writes the other spelling.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from sandboxd.a2a import push, v10
from sandboxd.a2a.fields import Fields, refuse
from sandboxd.a2a.model import (
    ArtifactUpdate,
    ListRequest,
    Message,
    Part,
    PushConfig,
    PushRequest,
    PushShown,
    Reply,
    Role,
    SendRequest,
    StatusUpdate,
    StreamItem,
    Task,
    TaskPage,
    TaskState,
)
from sandboxd.a2a.spelling import Spelling, free, is_final, said
from sandboxd.a2a.versions import Version
from sandboxd.errors import Problem

VERSION: Final[Version] = "0.3"

PAGE_SIZE: Final = 25  # the dialect's
_ROLES: Final[dict[str, Role]] = {"user": "user", "ROLE_USER": "user"}
_STATES: Final = {state.value: state for state in TaskState}
_CONTENTS: Final = ("text", "data", "file", "raw", "url")


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
            spelled = {"kind": "file", "file": said(content, mimeType=part.media_type, name=part.filename)}
        case "url":
            spelled = {"kind": "file", "file": said({"uri": part.value}, mimeType=part.media_type, name=part.filename)}
        case _:
            assert_never(part.kind)
    return said(spelled, metadata=free(part.metadata))


_SPELLED: Final = Spelling(
    {state: state.value for state in TaskState},
    {"user": "user", "agent": "agent"},
    _encode_part,
    is_tagged=True,
    beside_the_state=("fail_kind", "exit_code", "summary"),
)


# `{id, historyLength?, metadata?}` in both versions.
decode_get = v10.decode_get
decode_cancel = v10.decode_cancel
decode_subscribe = v10.decode_subscribe


def decode_send(body: Any) -> SendRequest:
    """`message/send`, `message/stream` and the dialect's sends; `InvalidParams` names every field that is wrong.

    `historyLength` 0 means all: 0.3 clients send it for "not set". Without `blocking` a call blocks, except in ProtoJSON, which
    leaves `false` out.
    """
    problems: list[Problem] = []
    request = Fields(body, "", problems)
    name = "request" if request.take("message") is None and request.take("request") is not None else "message"
    message = request.child(name)
    request.required(name, message)
    configuration = request.child("configuration")
    chosen = configuration or Fields({}, "configuration", problems)
    is_proto = message is not None and _is_proto(message)
    blocking = chosen.flag("blocking")
    made = SendRequest(
        message=_message(message, is_proto=is_proto) if message else Message("", "user", ()),
        return_immediately=not blocking if blocking is not None else (is_proto and configuration is not None),
        history_length=chosen.integer("historyLength", 0) or None,
        accepted_output_modes=chosen.texts("acceptedOutputModes"),
        push=_inline_push(chosen),
        metadata=request.mapping("metadata"),
    )
    refuse("take the message", problems)
    return made


def decode_push_create(params: Any) -> PushRequest:
    """`tasks/pushNotificationConfig/set`, and the same over HTTP."""
    return push.decode_create(params, style="0.3")


decode_push_one = push.decode_one_03
decode_push_all = push.decode_all_03
encode_push = push.encode_03


def encode_push_page(shown: Sequence[PushShown]) -> Any:
    """JSON-RPC's list has no frame."""
    return [encode_push(one) for one in shown]


def encode_push_deleted() -> Any:
    """JSON-RPC's delete has no result."""
    return None


def decode_list(params: Any) -> ListRequest:
    """The dialect's list: `limit`, `cursor`, `state` and `contextId`, with artifacts left out."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    limit = request.integer("limit", 1, 100)
    made = ListRequest(
        context_id=request.identifier("contextId"),
        state=request.enum("state", _STATES, {}),
        page_size=PAGE_SIZE if limit is None else limit,
        page_token=request.text("cursor") or "",
    )
    refuse("list tasks", problems)
    return made


decode_list_query = decode_list  # numbers are read from text as they are


encode_task = _SPELLED.task
encode_message = _SPELLED.message


def encode_stream_item(item: StreamItem) -> dict[str, Any]:
    """One event of a stream: its `kind` says which; `final` ends the turn, also where the task waits for input."""
    match item:
        case Task():
            return encode_task(item)
        case Message():
            return encode_message(item)
        case StatusUpdate():
            spelled = {
                "kind": "status-update",
                "taskId": item.task_id,
                "contextId": item.context_id,
                "final": is_final(item.status),
                "status": _SPELLED.status(item.status),
            }
            return said(spelled, metadata=free(item.metadata))
        case ArtifactUpdate():
            spelled = {
                "kind": "artifact-update",
                "taskId": item.task_id,
                "contextId": item.context_id,
                "artifact": _SPELLED.artifact(item.artifact),
                "append": item.append,
                "lastChunk": item.last_chunk,
            }
            return said(spelled, metadata=free(item.metadata))
        case _:
            assert_never(item)


def encode_send_response(reply: Reply) -> dict[str, Any]:
    """The result of a send: the task or the message itself."""
    return encode_stream_item(reply)


def encode_task_page(page: TaskPage) -> dict[str, Any]:
    """The dialect's list: `next_cursor` only where more follows."""
    return said({"tasks": [encode_task(task) for task in page.tasks]}, next_cursor=page.next_page_token)


def _inline_push(chosen: Fields) -> PushConfig | None:
    found = chosen.child("pushNotificationConfig") or chosen.child("pushNotification")
    return None if found is None else push.read(found, "0.3")


def _is_proto(message: Fields) -> bool:
    """Whether the message is in ProtoJSON, where parts have no tag and stand in `content`."""
    return message.take("parts") is None and message.take("content") is not None


def _message(fields: Fields, *, is_proto: bool) -> Message:
    return Message(
        message_id=fields.required("messageId", fields.identifier("messageId")) or "",
        role=fields.required("role", fields.enum("role", _ROLES, {1: "user"})) or "user",
        parts=tuple(_part(part, is_proto=is_proto) for part in fields.children("content" if is_proto else "parts")),
        context_id=fields.token("contextId"),
        task_id=fields.identifier("taskId"),
        metadata=fields.mapping("metadata"),
        extensions=fields.texts("extensions"),
        reference_task_ids=fields.texts("referenceTaskIds"),
    )


def _part(fields: Fields, *, is_proto: bool) -> Part:
    metadata = fields.mapping("metadata")
    match _kind(fields):
        case "text":
            return Part("text", _string(fields, "text"), None, _media_type(fields), metadata)
        case "data":
            holder = (fields.child("data") if is_proto else None) or fields
            if not holder.has("data"):
                holder.problem("data", "is required")
            return Part("data", holder.take("data"), None, _media_type(fields), metadata)
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
        data = fields.base64(present[0])
        if present[0] == "fileWithBytes" and data is not None:
            data = _unwrapped(data)
        return Part("raw", data, name, _media_type(fields), metadata)
    url = fields.text(present[0])
    fields.required(present[0], url)
    return Part("url", url, name, _media_type(fields), metadata)


def _unwrapped(data: bytes) -> bytes:
    """0.3's SDKs put base64 text into the proto's bytes, which ProtoJSON then spells in base64 again."""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return data


def _string(fields: Fields, name: str) -> str:
    value = fields.take(name)
    if isinstance(value, str):
        return value
    fields.problem(name, "is required" if value is None else "must be a string")
    return ""


def _media_type(fields: Fields) -> str | None:
    return fields.text("mimeType") or fields.text("mediaType")
