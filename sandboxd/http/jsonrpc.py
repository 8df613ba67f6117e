"""How does a JSON-RPC call become an operation, and its result an answer? (A2A 1.0 §9)

Every answer is HTTP 200, refusals too; what the HTTP layer itself refuses (401, 403, 413) never gets here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import quart

from sandboxd.a2a import v10
from sandboxd.a2a.jsonrpc import Call, failure, id_of, parse_call, result
from sandboxd.errors import MethodNotFound, PushNotificationNotSupported, UnsupportedOperation
from sandboxd.http.answers import JSON, answer, as_refusal, refusal_answer
from sandboxd.http.doors import Doors, read_json
from sandboxd.http.rest import cancel_reason
from sandboxd.http.sse import last_event_id
from sandboxd.operations.cancel import cancel
from sandboxd.operations.get import get
from sandboxd.operations.host import Caller
from sandboxd.operations.list import list_tasks
from sandboxd.operations.send import send, stream
from sandboxd.operations.stream import TaskStream
from sandboxd.operations.subscribe import subscribe


async def call(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """Answer the call in the body of the current request."""
    body: Any = None
    try:
        body = await read_json(quart.request, media_types=(JSON,))
        parsed = parse_call(body)
        handler = _METHODS.get(parsed.method)
        if handler is None:
            raise MethodNotFound(f"cannot call `{parsed.method[:64]}`: A2A 1.0 has no such method")
        return await handler(_Exchange(doors, caller, instance, parsed))
    except Exception as error:
        refusal, status = as_refusal(error)
        return refusal_answer(refusal, "rpc", quart.request.path, call_id=id_of(body), status=status)


@attrs.frozen
class _Exchange:
    doors: Doors
    caller: Caller
    instance: str
    call: Call

    @property
    def params(self) -> Mapping[str, Any]:
        return self.call.params

    def answer(self, value: Any) -> quart.Response:
        return answer(result(self.call.id, value))

    def follow(self, found: TaskStream) -> quart.Response:
        return self.doors.follow(
            found,
            encode=lambda item: result(self.call.id, v10.encode_stream_item(item)),
            encode_refusal=lambda refusal: failure(self.call.id, refusal, version="1.0"),
        )


async def _send(it: _Exchange) -> quart.Response:
    request = v10.decode_send(it.params)
    task = await send(it.doors.host, it.caller, it.instance, request, wait=not request.return_immediately)
    return it.answer(v10.encode_send_response(task))


async def _stream(it: _Exchange) -> quart.Response:
    return it.follow(await stream(it.doors.host, it.caller, it.instance, v10.decode_send(it.params)))


async def _get(it: _Exchange) -> quart.Response:
    request = v10.decode_get(it.params)
    task = await get(it.doors.host, it.caller, it.instance, request.task_id, history_length=request.history_length)
    return it.answer(v10.encode_task(task))


async def _list(it: _Exchange) -> quart.Response:
    page = await list_tasks(it.doors.host, it.caller, it.instance, v10.decode_list(it.params))
    return it.answer(v10.encode_task_page(page))


async def _cancel(it: _Exchange) -> quart.Response:
    request = v10.decode_cancel(it.params)
    task = await cancel(it.doors.host, it.caller, it.instance, request.task_id, reason=cancel_reason(request))
    return it.answer(v10.encode_task(task))


async def _subscribe(it: _Exchange) -> quart.Response:
    after = last_event_id(quart.request.headers.get("Last-Event-ID"))
    return it.follow(await subscribe(it.doors.host, it.caller, it.instance, v10.decode_subscribe(it.params), after=after))


async def _push(it: _Exchange) -> quart.Response:
    raise PushNotificationNotSupported("cannot set up push notifications: this host has none")


async def _extended_card(it: _Exchange) -> quart.Response:
    raise UnsupportedOperation("cannot show an extended agent card: this agent has none")


_METHODS: Final[Mapping[str, Callable[[_Exchange], Awaitable[quart.Response]]]] = {
    "SendMessage": _send,
    "SendStreamingMessage": _stream,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
    "CreateTaskPushNotificationConfig": _push,
    "GetTaskPushNotificationConfig": _push,
    "ListTaskPushNotificationConfigs": _push,
    "DeleteTaskPushNotificationConfig": _push,
    "GetExtendedAgentCard": _extended_card,
}
