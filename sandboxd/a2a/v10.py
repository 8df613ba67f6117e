"""How does A2A 1.0 spell requests and answers in JSON?

ProtoJSON without protobuf (A2A 1.0 §5.5 to §5.7): requests are read tolerantly (`fields`), answers are written strictly:
camelCase, enums by their full name, empty values left out. Metadata passes through untouched, its integers stay integers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from sandboxd.a2a import push
from sandboxd.a2a.fields import Fields, refuse
from sandboxd.a2a.model import (
    ArtifactUpdate,
    CancelRequest,
    GetRequest,
    ListRequest,
    Message,
    Part,
    PartKind,
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
from sandboxd.a2a.spelling import Spelling, free, said
from sandboxd.a2a.versions import Version
from sandboxd.errors import Problem

VERSION: Final[Version] = "1.0"

_STATES: Final = {
    "TASK_STATE_SUBMITTED": TaskState.SUBMITTED,
    "TASK_STATE_WORKING": TaskState.WORKING,
    "TASK_STATE_COMPLETED": TaskState.COMPLETED,
    "TASK_STATE_FAILED": TaskState.FAILED,
    "TASK_STATE_CANCELED": TaskState.CANCELED,
    "TASK_STATE_INPUT_REQUIRED": TaskState.INPUT_REQUIRED,
    "TASK_STATE_REJECTED": TaskState.REJECTED,
    "TASK_STATE_AUTH_REQUIRED": TaskState.AUTH_REQUIRED,
}
_STATE_NUMBERS: Final = dict(enumerate(_STATES.values(), start=1))  # the table's order is a2a.proto's
_STATE_NAMES: Final = {state: name for name, state in _STATES.items()}
_ROLES: Final[dict[str, Role]] = {"ROLE_USER": "user"}  # ROLE_AGENT is ours alone
_ROLE_NUMBERS: Final[dict[int, Role]] = {1: "user"}
_ROLE_NAMES: Final[dict[Role, str]] = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_CONTENTS: Final[tuple[PartKind, ...]] = ("text", "raw", "url", "data")


def _encode_part(part: Part) -> dict[str, Any]:
    value = base64.b64encode(part.value).decode() if part.kind == "raw" else part.value
    return said({part.kind: value}, filename=part.filename, mediaType=part.media_type, metadata=free(part.metadata))


_SPELLED: Final = Spelling(_STATE_NAMES, _ROLE_NAMES, _encode_part)


def decode_send(params: Any) -> SendRequest:
    """`SendMessage` and `SendStreamingMessage` (§3.2.1); `InvalidParams` names every field that is wrong."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    message = request.child("message")
    request.required("message", message)
    configuration = request.child("configuration") or Fields({}, "configuration", problems)
    made = SendRequest(
        message=_message(message) if message else Message("", "user", ()),
        return_immediately=configuration.flag("returnImmediately") or False,
        history_length=configuration.integer("historyLength", 0),
        accepted_output_modes=configuration.texts("acceptedOutputModes"),
        push=_inline_push(configuration),
        metadata=request.mapping("metadata"),
        tenant=request.text("tenant"),
    )
    refuse("take the message", problems)
    return made


def decode_get(params: Any) -> GetRequest:
    """`GetTask` (§3.1.3), also from query parameters beside the path's `id`."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    made = GetRequest(request.required("id", request.identifier("id")) or "", request.integer("historyLength", 0))
    refuse("get the task", problems)
    return made


def decode_cancel(params: Any) -> CancelRequest:
    """`CancelTask` (§3.1.5)."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    made = CancelRequest(request.required("id", request.identifier("id")) or "", request.mapping("metadata"))
    refuse("cancel the task", problems)
    return made


def decode_subscribe(params: Any) -> str:
    """`SubscribeToTask` (§3.1.6): the task's id."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    task_id = request.required("id", request.identifier("id")) or ""
    refuse("subscribe to the task", problems)
    return task_id


def decode_list(params: Any) -> ListRequest:
    """`ListTasks` (§3.1.4)."""
    problems: list[Problem] = []
    request = Fields(params, "", problems)
    page_size = request.integer("pageSize", 1, 100)
    made = ListRequest(
        context_id=request.identifier("contextId"),
        state=request.enum("status", {"TASK_STATE_UNSPECIFIED": None, **_STATES}, {0: None, **_STATE_NUMBERS}),
        page_size=50 if page_size is None else page_size,
        page_token=request.text("pageToken") or "",
        history_length=request.integer("historyLength", 0),
        since=request.time("statusTimestampAfter"),
        include_artifacts=request.flag("includeArtifacts") or False,
    )
    refuse("list tasks", problems)
    return made


def decode_list_query(query: Mapping[str, str]) -> ListRequest:
    """`ListTasks` from query parameters (§11.5), where booleans are words."""
    words = {"true": True, "false": False}
    booleans = ("includeArtifacts", "include_artifacts")
    return decode_list({name: words.get(value, value) if name in booleans else value for name, value in query.items()})


def decode_push_create(params: Any) -> PushRequest:
    """`CreateTaskPushNotificationConfig` (§3.1.7)."""
    return push.decode_create(params, style="1.0")


decode_push_one = push.decode_one
decode_push_all = push.decode_all
encode_push = push.encode


def encode_push_page(shown: Sequence[PushShown]) -> Any:
    """`ListTaskPushNotificationConfigsResponse` (§3.1.9), one page."""
    return {"configs": [encode_push(one) for one in shown], "nextPageToken": ""}


def encode_push_deleted() -> Any:
    """What `DeleteTaskPushNotificationConfig` is answered with: an empty message."""
    return {}


encode_task = _SPELLED.task
encode_message = _SPELLED.message


def encode_send_response(reply: Reply) -> dict[str, Any]:
    """`SendMessageResponse` (§3.2.3)."""
    return encode_stream_item(reply)


def encode_stream_item(item: StreamItem) -> dict[str, Any]:
    """`StreamResponse` (§3.2.4): exactly one member says what it is."""
    return frame(_SPELLED, item)


def frame(spelled: Spelling, item: StreamItem) -> dict[str, Any]:
    """The frame that ProtoJSON puts around an event, here and in the 0.3 proto."""
    match item:
        case Task():
            return {"task": spelled.task(item)}
        case Message():
            return {"message": spelled.message(item)}
        case StatusUpdate():
            update = {"taskId": item.task_id, "contextId": item.context_id, "status": spelled.status(item.status)}
            return {"statusUpdate": said(update, metadata=free(item.metadata))}
        case ArtifactUpdate():
            update = {"taskId": item.task_id, "contextId": item.context_id, "artifact": spelled.artifact(item.artifact)}
            marks = {"append": item.append, "lastChunk": item.last_chunk}
            return {"artifactUpdate": said(update, **marks, metadata=free(item.metadata))}
        case _:
            assert_never(item)


def encode_task_page(page: TaskPage) -> dict[str, Any]:
    """`ListTasksResponse` (§3.1.4): all four keys, always."""
    return {
        "tasks": [encode_task(task) for task in page.tasks],
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


def _inline_push(configuration: Fields) -> PushConfig | None:
    found = configuration.child("taskPushNotificationConfig")
    return None if found is None else push.read(found, "1.0")


def _message(fields: Fields) -> Message:
    return Message(
        message_id=fields.required("messageId", fields.identifier("messageId")) or "",
        role=fields.required("role", fields.enum("role", _ROLES, _ROLE_NUMBERS)) or "user",
        parts=tuple(_part(part) for part in fields.children("parts")),
        context_id=fields.token("contextId"),
        task_id=fields.identifier("taskId"),
        metadata=fields.mapping("metadata"),
        extensions=fields.texts("extensions"),
        reference_task_ids=fields.texts("referenceTaskIds"),
    )


def _part(fields: Fields) -> Part:
    present = [kind for kind in _CONTENTS if (fields.has(kind) if kind == "data" else fields.take(kind) is not None)]
    if len(present) != 1:
        found = "none of them" if not present else " and ".join(f"`{kind}`" for kind in present)
        fields.own_problem(f"needs exactly one of `text`, `raw`, `url`, `data`; it has {found}")
        present = []
    kind: PartKind = present[0] if present else "text"
    value = fields.base64(kind) if kind == "raw" else fields.take(kind)
    if kind in ("text", "url") and present and not isinstance(value, str):
        fields.problem(kind, "must be a string")
    elif kind == "url" and not value:
        fields.problem(kind, "must not be empty")
    return Part(kind, value, fields.text("filename"), fields.text("mediaType"), fields.mapping("metadata"))
