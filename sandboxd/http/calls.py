"""What does a request ask for, whichever door, version and manner it came in?

One function an operation, and no second copy anywhere: a door hands over the parameters as JSON and the codec of the request's
version, and gets back the answer's JSON, or a stream to follow. What is refused here is refused at every door alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sandboxd.a2a.codec import Codec
from sandboxd.a2a.model import CancelRequest, ListRequest, Reply, SendRequest
from sandboxd.errors import ExtendedCardNotConfigured, UnsupportedOperation
from sandboxd.http.auth import ANYONE
from sandboxd.http.cards import Asked
from sandboxd.http.doors import Doors
from sandboxd.http.head import HEAD
from sandboxd.operations import cancel as canceling
from sandboxd.operations import get as getting
from sandboxd.operations import list as listing
from sandboxd.operations import push as pushing
from sandboxd.operations import reissue as reissuing
from sandboxd.operations import send as sending
from sandboxd.operations import subscribe as subscribing
from sandboxd.operations.host import Caller
from sandboxd.operations.stream import Stream
from sandboxd.serving.peer import PEER
from sandboxd.values import frozen


@frozen
class Call:
    """One request: who asks what of which instance. `after`: the sequence number that a stream is resumed from."""

    doors: Doors
    caller: Caller
    instance: str
    codec: Codec
    params: Any
    after: int | None = None


Operation = Callable[[Call], Awaitable[Any]]  # the answer's JSON, or a `Stream`


@frozen
class Sent:
    """A message that was taken, and what it is answered with."""

    request: SendRequest
    reply: Reply


async def sent(it: Call, *, may_wait: bool = True) -> Sent:
    """Send the message, and wait for the turn's end where the client does not ask for less."""
    request = it.codec.decode_send(it.params)
    wait = may_wait and not request.return_immediately
    return Sent(request, await sending.send(it.doors.host, it.caller, it.instance, request, wait=wait))


async def send(it: Call) -> Any:
    """`SendMessage`, `message/send`."""
    return it.codec.encode_send_response((await sent(it)).reply)


async def stream(it: Call) -> Stream:
    """`SendStreamingMessage`, `message/stream`."""
    return await sending.stream(it.doors.host, it.caller, it.instance, it.codec.decode_send(it.params))


async def get(it: Call) -> Any:
    """`GetTask`, `tasks/get`."""
    request = it.codec.decode_get(it.params)
    length = request.history_length
    task = await getting.get(it.doors.host, it.caller, it.instance, request.task_id, history_length=length)
    return it.codec.encode_task(task)


async def list_tasks(it: Call) -> Any:
    """`ListTasks`."""
    return await _list(it, it.codec.decode_list(it.params))


async def list_by_query(it: Call) -> Any:
    """The same from query parameters, where everything is text."""
    return await _list(it, it.codec.decode_list_query(it.params))


async def cancel(it: Call) -> Any:
    """`CancelTask`, `tasks/cancel`."""
    request = it.codec.decode_cancel(it.params)
    reason = _reason(request)
    return it.codec.encode_task(await canceling.cancel(it.doors.host, it.caller, it.instance, request.task_id, reason=reason))


async def reissue(it: Call) -> Any:
    """`ReissuePrompt` of urn:sandboxd:reissue:v1, `tasks/reissue` at 0.3's doors: `{id, promptId}`, in every codec alike."""
    task_id, prompt_id = reissuing.read(it.params)
    return it.codec.encode_task(await reissuing.reissue(it.doors.host, it.caller, it.instance, task_id, prompt_id))


async def subscribe(it: Call) -> Stream:
    """`SubscribeToTask`, `tasks/resubscribe`; in 0.3 a task that has ended is shown once more."""
    task_id = it.codec.decode_subscribe(it.params)
    shows_ended = it.codec.VERSION == "0.3"
    return await subscribing.subscribe(it.doors.host, it.caller, it.instance, task_id, after=it.after, shows_ended=shows_ended)


async def create_push(it: Call) -> Any:
    """`CreateTaskPushNotificationConfig`, `tasks/pushNotificationConfig/set`."""
    pushing.need(it.doors.host)  # before the parameters: where there is none, nothing else is of interest
    request = it.codec.decode_push_create(it.params)
    return it.codec.encode_push(await pushing.create(it.doors.host, it.caller, it.instance, request))


async def get_push(it: Call) -> Any:
    """`GetTaskPushNotificationConfig`, `tasks/pushNotificationConfig/get`."""
    pushing.need(it.doors.host)
    request = it.codec.decode_push_one(it.params)
    is_old = it.codec.VERSION == "0.3"
    return it.codec.encode_push(await pushing.get(it.doors.host, it.caller, it.instance, request, has_default=is_old))


async def list_pushes(it: Call) -> Any:
    """`ListTaskPushNotificationConfigs`, `tasks/pushNotificationConfig/list`."""
    pushing.need(it.doors.host)
    request = it.codec.decode_push_all(it.params)
    return it.codec.encode_push_page(await pushing.list_configs(it.doors.host, it.caller, it.instance, request.task_id))


async def delete_push(it: Call) -> Any:
    """`DeleteTaskPushNotificationConfig`, `tasks/pushNotificationConfig/delete`."""
    pushing.need(it.doors.host)
    await pushing.delete(it.doors.host, it.caller, it.instance, it.codec.decode_push_one(it.params))
    return it.codec.encode_push_deleted()


async def extended_card(it: Call) -> Any:
    """`GetExtendedAgentCard`, `agent/getAuthenticatedExtendedCard`.

    0.3 means what its name says: an open door has no authenticated caller, so it has no such card. Nor has 0.3 another error.
    """
    it.doors.host.enter(it.caller, it.instance)
    is_for_nobody = it.codec.VERSION == "0.3" and it.caller.principal == ANYONE
    if it.doors.host.capabilities.extended_card and not is_for_nobody:
        asked = Asked(PEER.get(), HEAD.get().host or "")
        return it.doors.cards.extended(it.doors.host, it.instance, it.doors.version, asked)
    why = "cannot show an extended agent card: this agent has none"
    raise ExtendedCardNotConfigured(why) if it.codec.VERSION == "0.3" else UnsupportedOperation(why)


STREAMS: tuple[Operation, ...] = (stream, subscribe)  # these return a `Stream`, and no others do
METHODS_10: Mapping[str, Operation] = {
    "SendMessage": send,
    "SendStreamingMessage": stream,
    "GetTask": get,
    "ListTasks": list_tasks,
    "CancelTask": cancel,
    "ReissuePrompt": reissue,
    "SubscribeToTask": subscribe,
    "CreateTaskPushNotificationConfig": create_push,
    "GetTaskPushNotificationConfig": get_push,
    "ListTaskPushNotificationConfigs": list_pushes,
    "DeleteTaskPushNotificationConfig": delete_push,
    "GetExtendedAgentCard": extended_card,
}
METHODS_03: Mapping[str, Operation] = {
    "message/send": send,
    "message/stream": stream,
    "tasks/get": get,
    "tasks/cancel": cancel,
    "tasks/reissue": reissue,
    "tasks/resubscribe": subscribe,
    "tasks/pushNotificationConfig/set": create_push,
    "tasks/pushNotificationConfig/get": get_push,
    "tasks/pushNotificationConfig/list": list_pushes,
    "tasks/pushNotificationConfig/delete": delete_push,
    "agent/getAuthenticatedExtendedCard": extended_card,
}


async def _list(it: Call, request: ListRequest) -> Any:
    return it.codec.encode_task_page(await listing.list_tasks(it.doors.host, it.caller, it.instance, request))


def _reason(request: CancelRequest) -> str | None:
    """Why the caller cancels: `metadata.reason`, a convention of ours that any client may leave out."""
    reason = (request.metadata or {}).get("reason")
    return reason if isinstance(reason, str) else None
