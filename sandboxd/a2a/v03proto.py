"""How does A2A 0.3 spell its answers over HTTP+JSON?

ProtoJSON of the 0.3 proto: `ROLE_USER`, `TASK_STATE_CANCELLED` with two L, message parts in `content`, no `kind`. Its SDK
refuses a name that the proto does not have, so nothing stands here beside it: what an outcome says is in the status message's
metadata. Requests are read by `v03`, which knows every spelling of that version. `hide` as in `v10`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from sandboxd.a2a import push, v03
from sandboxd.a2a.model import (
    Artifact,
    ArtifactUpdate,
    Message,
    Part,
    PushShown,
    Reply,
    Role,
    StatusUpdate,
    StreamItem,
    Task,
    TaskPage,
    TaskState,
    TaskStatus,
)
from sandboxd.a2a.versions import Version
from sandboxd.a2a.wire import rfc3339

VERSION: Final[Version] = "0.3"
NOTHING_HIDDEN: Final[frozenset[str]] = frozenset()

_STATE_NAMES: Final[dict[TaskState, str]] = {
    state: "TASK_STATE_" + state.name for state in TaskState if state is not TaskState.CANCELED
} | {TaskState.CANCELED: "TASK_STATE_CANCELLED"}
_ROLE_NAMES: Final[dict[Role, str]] = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}

decode_send = v03.decode_send
decode_get = v03.decode_get
decode_cancel = v03.decode_cancel
decode_subscribe = v03.decode_subscribe
decode_list = v03.decode_list
decode_list_query = v03.decode_list_query
decode_push_create = v03.decode_push_create
decode_push_one = v03.decode_push_one
decode_push_all = v03.decode_push_all
encode_push = push.encode_03_proto


def encode_push_page(shown: Sequence[PushShown]) -> Any:
    """`ListTaskPushNotificationConfigResponse`."""
    return {"configs": [encode_push(one) for one in shown]}


def encode_push_deleted() -> Any:
    """An empty message."""
    return {}


def encode_task(task: Task, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """A Task."""
    spelled = {"id": task.id, "contextId": task.context_id, "status": _encode_status(task.status, hide)}
    return _with(
        spelled,
        artifacts=[_encode_artifact(artifact) for artifact in task.artifacts or ()],
        history=[encode_message(message, hide=hide) for message in task.history or ()],
        metadata=_free(task.metadata),
    )


def encode_send_response(reply: Reply, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """`SendMessageResponse`."""
    return encode_stream_item(reply, hide=hide)


def encode_stream_item(item: StreamItem, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """`StreamResponse`: exactly one member says what it is."""
    match item:
        case Task():
            return {"task": encode_task(item, hide=hide)}
        case Message():
            return {"message": encode_message(item, hide=hide)}
        case StatusUpdate():
            spelled = {"taskId": item.task_id, "contextId": item.context_id, "status": _encode_status(item.status, hide)}
            is_final = item.status.state.is_terminal or item.status.state.is_interrupted
            return {"statusUpdate": _with(spelled, final=is_final, metadata=_free(item.metadata))}
        case ArtifactUpdate():
            spelled = {"taskId": item.task_id, "contextId": item.context_id, "artifact": _encode_artifact(item.artifact)}
            marks = {"append": item.append, "lastChunk": item.last_chunk}
            return {"artifactUpdate": _with(spelled, **marks, metadata=_free(item.metadata))}
        case _:
            assert_never(item)


def encode_task_page(page: TaskPage, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """The list has no message in the 0.3 proto, so its frame is the dialect's."""
    return _with({"tasks": [encode_task(task, hide=hide) for task in page.tasks]}, next_cursor=page.next_page_token)


def encode_message(message: Message, *, hide: frozenset[str] = NOTHING_HIDDEN) -> dict[str, Any]:
    """A Message; the proto has no room for its references to other tasks."""
    return _with(
        {"messageId": message.message_id, "role": _ROLE_NAMES[message.role]},
        taskId=message.task_id,
        contextId=message.context_id,
        content=[_encode_part(part) for part in message.parts],
        metadata={key: value for key, value in (message.metadata or {}).items() if key not in hide},
        extensions=[uri for uri in message.extensions if uri not in hide],
    )


def _encode_status(status: TaskStatus, hide: frozenset[str]) -> dict[str, Any]:
    spelled = {"state": _STATE_NAMES[status.state], "timestamp": rfc3339(status.timestamp)}
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
    """Bytes are base64 twice: 0.3's SDKs take the proto's bytes for base64 text. Data is an object, as in `v03`."""
    spelled: dict[str, Any]
    match part.kind:
        case "text":
            spelled = {"text": part.value}
        case "data":
            value = part.value if isinstance(part.value, Mapping) else {"value": part.value}
            spelled = {"data": {"data": value}}
        case "raw":
            content = base64.b64encode(base64.b64encode(part.value)).decode()
            spelled = {"file": _with({"fileWithBytes": content}, mimeType=part.media_type, name=part.filename)}
        case "url":
            spelled = {"file": _with({"fileWithUri": part.value}, mimeType=part.media_type, name=part.filename)}
        case _:
            assert_never(part.kind)
    return _with(spelled, metadata=_free(part.metadata))


def _free(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return dict(metadata) if metadata else None


def _with(spelled: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return spelled | {name: value for name, value in optional.items() if value}
