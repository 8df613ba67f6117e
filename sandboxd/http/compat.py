"""What does the `messages:send` dialect have that A2A 0.3 has not?

The specs' own door, in 0.3 spelling with problem documents: a new task is 202 with its `Location` as soon as it is on record,
an accepted answer is 200 (hitl-prompt/v1, CF-2); `cancel` and `subscribe` stand behind a slash; artifacts have a list of their
own. Everything else is `rest`'s, on the same paths.
"""

from __future__ import annotations

from urllib.parse import quote

import quart

from sandboxd.a2a.extensions import HITL_RESPONSE_FOR
from sandboxd.a2a.model import Task
from sandboxd.errors import MethodNotFound
from sandboxd.http import calls
from sandboxd.http.answers import answer
from sandboxd.http.calls import Call
from sandboxd.http.doors import Doors, current_speech, read_json, read_optional_object
from sandboxd.http.head import HEAD
from sandboxd.http.rest import perform
from sandboxd.operations.host import Caller


async def send_message(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`POST /messages:send`."""
    codec = current_speech().codec
    call = Call(doors, caller, instance, codec, await read_json())
    sent = await calls.sent(call, may_wait=False)
    spelled = codec.encode_send_response(sent.reply)
    if not isinstance(sent.reply, Task) or HITL_RESPONSE_FOR in (sent.request.message.metadata or {}):
        return answer(spelled)
    location = f"/agents/{quote(instance)}/v1/tasks/{quote(sent.reply.id)}"
    return answer(spelled, status=202, headers={"Location": location})


async def cancel_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`POST /tasks/{id}/cancel`."""
    params = {**await read_optional_object(), "id": ref}
    return await perform(calls.cancel, doors, caller, instance, params)


async def subscribe(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`GET /tasks/{id}/subscribe`."""
    if HEAD.get().method == "HEAD":  # werkzeug lets it follow GET, and a stream without a body says nothing
        raise MethodNotFound("cannot HEAD a stream")
    return await perform(calls.subscribe, doors, caller, instance, {"id": ref})


async def artifacts(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`GET /tasks/{id}/artifacts`."""
    task = await calls.get(Call(doors, caller, instance, current_speech().codec, {"id": ref, "historyLength": 0}))
    listed = task.get("artifacts", [])
    return answer({"task_id": task["id"], "artifacts": listed})
