"""How does A2A 0.3 spell its answers over HTTP+JSON?

ProtoJSON of the 0.3 proto: `ROLE_USER`, `TASK_STATE_CANCELLED` with two L, message parts in `content`, no `kind`. Its SDK
refuses a name that the proto does not have, so nothing stands here beside it: what an outcome says is in the status message's
metadata. Requests are read by `v03`, which knows every spelling of that version.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

from sandboxd.a2a import push, v03, v10
from sandboxd.a2a.model import (
    Part,
    PushShown,
    Reply,
    Role,
    StatusUpdate,
    StreamItem,
    TaskPage,
    TaskState,
)
from sandboxd.a2a.spelling import Spelling, free, is_final, said
from sandboxd.a2a.versions import Version

VERSION: Final[Version] = "0.3"

_STATE_NAMES: Final[dict[TaskState, str]] = {
    state: "TASK_STATE_" + state.name for state in TaskState if state is not TaskState.CANCELED
} | {TaskState.CANCELED: "TASK_STATE_CANCELLED"}
_ROLE_NAMES: Final[dict[Role, str]] = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}


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
            spelled = {"file": said({"fileWithBytes": content}, mimeType=part.media_type, name=part.filename)}
        case "url":
            spelled = {"file": said({"fileWithUri": part.value}, mimeType=part.media_type, name=part.filename)}
        case _:
            assert_never(part.kind)
    return said(spelled, metadata=free(part.metadata))


_SPELLED: Final = Spelling(_STATE_NAMES, _ROLE_NAMES, _encode_part, parts="content", has_references=False, shows_empty=False)


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


encode_task = _SPELLED.task
encode_message = _SPELLED.message


def encode_send_response(reply: Reply) -> dict[str, Any]:
    """`SendMessageResponse`."""
    return encode_stream_item(reply)


def encode_stream_item(item: StreamItem) -> dict[str, Any]:
    """`StreamResponse`: exactly one member says what it is; an update's status has 0.3's `final` beside it."""
    spelled = v10.frame(_SPELLED, item)
    if isinstance(item, StatusUpdate):
        spelled["statusUpdate"] = said(spelled["statusUpdate"], final=is_final(item.status))
    return spelled


def encode_task_page(page: TaskPage) -> dict[str, Any]:
    """The list has no message in the 0.3 proto, so its frame is the dialect's."""
    return said({"tasks": [encode_task(task) for task in page.tasks]}, next_cursor=page.next_page_token)
