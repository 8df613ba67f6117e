"""How does the `messages:send` dialect ask, and how is it answered?

The specs' own door: A2A 0.3 spelling, problem documents. A new task is 202 with its `Location` as soon as it is on record, an
accepted answer is 200 (hitl-prompt/v1, CF-2).
"""

from __future__ import annotations

from urllib.parse import quote

import quart

from sandboxd.a2a import v03, v10
from sandboxd.a2a.extensions import HITL_RESPONSE_FOR
from sandboxd.a2a.model import CancelRequest
from sandboxd.errors import MethodNotFound
from sandboxd.http.answers import answer
from sandboxd.http.doors import Doors, read_json, read_optional_object
from sandboxd.http.rest import cancel_reason, split_verb
from sandboxd.operations.cancel import cancel
from sandboxd.operations.get import get
from sandboxd.operations.host import Caller
from sandboxd.operations.send import send


async def send_message(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`POST /messages:send`."""
    request = v03.decode_send(await read_json(quart.request))
    task = await send(doors.host, caller, instance, request, wait=False)
    if HITL_RESPONSE_FOR in (request.message.metadata or {}):
        return answer(v03.encode_task(task))
    location = f"/agents/{quote(instance)}/v1/tasks/{quote(task.id)}"
    return answer(v03.encode_task(task), status=202, headers={"Location": location})


async def read_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`GET /v1/tasks/{id}`."""
    request = v10.decode_get({**quart.request.args.to_dict(), "id": ref})
    task = await get(doors.host, caller, instance, request.task_id, history_length=request.history_length)
    return answer(v03.encode_task(task))


async def artifacts(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`GET /v1/tasks/{id}/artifacts`."""
    task = await get(doors.host, caller, instance, v10.decode_subscribe({"id": ref}), history_length=0)
    return answer({"artifacts": v03.encode_task(task).get("artifacts", [])})


async def cancel_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`POST /v1/tasks/{id}/cancel`."""
    return await _cancel(doors, caller, instance, ref)


async def act_on_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`POST /v1/tasks/{id}:cancel`."""
    task_id, verb = split_verb(ref)
    if verb != "cancel":
        raise MethodNotFound(f"cannot POST `:{verb[:64]}` to a task" if verb else "cannot POST to a task: name a verb")
    return await _cancel(doors, caller, instance, task_id)


async def _cancel(doors: Doors, caller: Caller, instance: str, task_id: str) -> quart.Response:
    request: CancelRequest = v10.decode_cancel({**await read_optional_object(quart.request), "id": task_id})
    task = await cancel(doors.host, caller, instance, request.task_id, reason=cancel_reason(request))
    return answer(v03.encode_task(task))
