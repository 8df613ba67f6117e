"""How does the `messages:send` dialect spell what A2A 0.3's JSON-RPC spells otherwise? (push notification configs alone)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sandboxd.a2a import push, v03
from sandboxd.a2a.model import PushRequest, PushShown, SendRequest

VERSION = v03.VERSION
decode_get = v03.decode_get
decode_cancel = v03.decode_cancel
decode_subscribe = v03.decode_subscribe
decode_list = v03.decode_list
decode_list_query = v03.decode_list_query
decode_push_one = v03.decode_push_one
decode_push_all = v03.decode_push_all
encode_send_response = v03.encode_send_response
encode_task = v03.encode_task
encode_stream_item = v03.encode_stream_item
encode_task_page = v03.encode_task_page
encode_push = push.encode_dialect


def decode_send(body: Any) -> SendRequest:
    """A send, whose notifications are to be in this spelling."""
    request = v03.decode_send(body)
    return attrs.evolve(request, push=request.push and attrs.evolve(request.push, style="dialect"))


def decode_push_create(params: Any) -> PushRequest:
    """A new config."""
    return push.decode_create(params, style="dialect")


def encode_push_page(shown: Sequence[PushShown]) -> Any:
    """All configs of a task."""
    return {"configs": [encode_push(one) for one in shown]}


def encode_push_deleted() -> Any:
    """What a delete is answered with."""
    return {}
