"""What does every codec do, whichever version it spells?

The modules `v10`, `v03` and `v03proto` are the codecs: each reads requests into the model and writes the model as JSON. A door
picks one by the request's version and manner, and says everything else once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sandboxd.a2a.model import (
    CancelRequest,
    GetRequest,
    ListRequest,
    PushRequest,
    PushShown,
    Reply,
    SendRequest,
    StreamItem,
    Task,
    TaskPage,
)
from sandboxd.a2a.versions import Version


class Codec(Protocol):
    """Every decoder raises `InvalidParams`, which names every field that is wrong."""

    @property
    def VERSION(self) -> Version:  # noqa: N802 - modules implement this protocol, and spell their constants so
        """The A2A version that it spells."""

    def decode_send(self, body: Any, /) -> SendRequest:
        """A message for the agent."""

    def decode_get(self, params: Any, /) -> GetRequest:
        """Which task, and how much of its history."""

    def decode_cancel(self, params: Any, /) -> CancelRequest:
        """Which task is to end."""

    def decode_subscribe(self, params: Any, /) -> str:
        """The id of the task to follow."""

    def decode_list(self, params: Any, /) -> ListRequest:
        """Which tasks."""

    def decode_list_query(self, query: Mapping[str, str], /) -> ListRequest:
        """Which tasks, from query parameters."""

    def decode_push_create(self, params: Any, /) -> PushRequest:
        """A new push notification config."""

    def decode_push_one(self, params: Any, /) -> PushRequest:
        """Which push notification config, to get or to delete."""

    def decode_push_all(self, params: Any, /) -> PushRequest:
        """Whose push notification configs."""

    def encode_push(self, shown: PushShown, /) -> Any:
        """A push notification config."""

    def encode_push_page(self, shown: Sequence[PushShown], /) -> Any:
        """All of a task's."""

    def encode_push_deleted(self) -> Any:
        """What a delete is answered with."""

    def encode_send_response(self, reply: Reply, /) -> dict[str, Any]:
        """What a send is answered with."""

    def encode_task(self, task: Task, /) -> dict[str, Any]:
        """A bare task."""

    def encode_stream_item(self, item: StreamItem, /) -> dict[str, Any]:
        """One event of a stream."""

    def encode_task_page(self, page: TaskPage, /) -> dict[str, Any]:
        """One page of a list."""
