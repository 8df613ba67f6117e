"""How does an HTTP+JSON request become an operation, and its result an answer? (A2A 1.0 §11, A2A 0.3)

The same paths for both versions: which one a request speaks decides its codec (`manners`), and nothing else. `:verb` splits at
the last colon of the last segment.
"""

from __future__ import annotations

from typing import Any

import quart

from sandboxd.errors import MethodNotFound
from sandboxd.http import calls
from sandboxd.http.answers import A2A_JSON, JSON, answer, refusal_json, wants_a2a_json
from sandboxd.http.calls import Call, Operation
from sandboxd.http.doors import Doors, read_json, read_optional_object
from sandboxd.http.head import HEAD
from sandboxd.http.sse import last_event_id
from sandboxd.operations import push as pushing
from sandboxd.operations.host import Caller


async def send_message(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`POST /message:send`."""
    return await perform(calls.send, doors, caller, instance, await read_json())


async def stream_message(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`POST /message:stream`, and `/messages:stream` of the dialect."""
    return await perform(calls.stream, doors, caller, instance, await read_json())


async def tasks(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /tasks`."""
    return await perform(calls.list_by_query, doors, caller, instance, HEAD.get().arguments)


async def read_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`GET /tasks/{id}` and `GET /tasks/{id}:subscribe` (a2a.proto's verb; §11.3.2 says POST)."""
    task_id, verb = split_verb(ref)
    match verb:
        case "":
            return await perform(calls.get, doors, caller, instance, {**HEAD.get().arguments, "id": task_id})
        case "subscribe" if HEAD.get().method == "GET":  # HEAD follows GET, and a stream without a body says nothing
            return await perform(calls.subscribe, doors, caller, instance, {"id": task_id})
        case _:
            raise MethodNotFound(f"cannot GET `:{verb[:64]}` of a task")


async def act_on_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`POST /tasks/{id}:cancel` and `POST /tasks/{id}:subscribe`, which need no body; `POST /tasks/{id}:reissue`."""
    task_id, verb = split_verb(ref)
    match verb:
        case "cancel" | "subscribe":
            params = {**await read_optional_object(), "id": task_id}
            return await perform(calls.cancel if verb == "cancel" else calls.subscribe, doors, caller, instance, params)
        case "reissue":
            params = {**await read_optional_object(), "id": task_id}
            return await perform(calls.reissue, doors, caller, instance, params)
        case _:
            raise MethodNotFound(f"cannot POST `:{verb[:64]}` to a task" if verb else "cannot POST to a task: name a verb")


async def push_configs(doors: Doors, caller: Caller, instance: str, ref: str, config: str = "") -> quart.Response:
    """`GET` and `POST /tasks/{id}/pushNotificationConfigs`, `GET` and `DELETE` of one of them."""
    match HEAD.get().method:
        case "POST":
            pushing.need(doors.host)
            body = await read_json()
            if isinstance(body, dict):  # the path says which task
                body = {name: value for name, value in body.items() if name not in ("taskId", "task_id")} | {"taskId": ref}
            return await perform(calls.create_push, doors, caller, instance, body)
        case "DELETE":
            return await perform(calls.delete_push, doors, caller, instance, {"taskId": ref, "id": config})
        case _ if config:
            return await perform(calls.get_push, doors, caller, instance, {"taskId": ref, "id": config})
        case _:
            return await perform(calls.list_pushes, doors, caller, instance, {"taskId": ref})


async def extended_card(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /extendedAgentCard`, and `GET /v1/card` of 0.3."""
    return await perform(calls.extended_card, doors, caller, instance, {})


async def perform(operation: Operation, doors: Doors, caller: Caller, instance: str, params: Any) -> quart.Response:
    """Do it, and answer as the request speaks."""
    head = HEAD.get()
    speech, path = head.speech, head.path
    after = last_event_id(head.get("Last-Event-ID"))
    found = await operation(Call(doors, caller, instance, speech.codec, params, after))
    if operation not in calls.STREAMS:
        return answer(found, media_type=A2A_JSON if speech.manner == "rest" and wants_a2a_json() else JSON)
    return doors.follow(
        found,
        encode=speech.codec.encode_stream_item,
        encode_refusal=lambda refusal: refusal_json(refusal, speech, path),
    )


def split_verb(ref: str) -> tuple[str, str]:
    """A task's id and the verb behind its last colon, empty without one."""
    task_id, colon, verb = ref.rpartition(":")
    return (task_id, verb) if colon else (ref, "")
