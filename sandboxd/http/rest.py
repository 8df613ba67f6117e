"""How does an HTTP+JSON request become an operation, and its result an answer? (A2A 1.0 §11)

`:verb` splits at the last colon of the last segment. The agent card is public and carries no secret; it is cached by clients,
so it has validators.
"""

from __future__ import annotations

from typing import Any

import quart
from werkzeug.http import http_date

from sandboxd.a2a import card, v10
from sandboxd.a2a.faults import to_rest
from sandboxd.a2a.model import CancelRequest
from sandboxd.errors import MethodNotFound, PushNotificationNotSupported, Refusal, UnsupportedOperation
from sandboxd.http.answers import A2A_JSON, JSON, answer
from sandboxd.http.auth import PEER
from sandboxd.http.doors import Doors, read_json, read_optional_object, wants_a2a_json
from sandboxd.http.sse import last_event_id
from sandboxd.operations.cancel import cancel
from sandboxd.operations.get import get
from sandboxd.operations.host import Caller
from sandboxd.operations.list import list_tasks
from sandboxd.operations.send import send, stream
from sandboxd.operations.stream import TaskStream
from sandboxd.operations.subscribe import subscribe

CARD_MAX_AGE_S = 300


async def send_message(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`POST /message:send`."""
    request = v10.decode_send(await read_json(quart.request))
    task = await send(doors.host, caller, instance, request, wait=not request.return_immediately)
    return _answer(v10.encode_send_response(task))


async def stream_message(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`POST /message:stream`."""
    request = v10.decode_send(await read_json(quart.request))
    return _follow(doors, await stream(doors.host, caller, instance, request))


async def tasks(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /tasks`."""
    page = await list_tasks(doors.host, caller, instance, v10.decode_list_query(quart.request.args.to_dict()))
    return _answer(v10.encode_task_page(page))


async def read_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`GET /tasks/{id}` and `GET /tasks/{id}:subscribe` (a2a.proto's verb; §11.3.2 says POST)."""
    task_id, verb = split_verb(ref)
    match verb:
        case "":
            request = v10.decode_get({**quart.request.args.to_dict(), "id": task_id})
            task = await get(doors.host, caller, instance, request.task_id, history_length=request.history_length)
            return _answer(v10.encode_task(task))
        case "subscribe" if (
            quart.request.method == "GET"
        ):  # werkzeug lets HEAD follow GET, and a stream without a body says nothing
            return await _subscribe(doors, caller, instance, task_id)
        case _:
            raise MethodNotFound(f"cannot GET `:{verb[:64]}` of a task")


async def act_on_task(doors: Doors, caller: Caller, instance: str, ref: str) -> quart.Response:
    """`POST /tasks/{id}:cancel` and `POST /tasks/{id}:subscribe`; neither needs a body."""
    task_id, verb = split_verb(ref)
    match verb:
        case "cancel":
            request = v10.decode_cancel({**await read_optional_object(quart.request), "id": task_id})
            task = await cancel(doors.host, caller, instance, request.task_id, reason=cancel_reason(request))
            return _answer(v10.encode_task(task))
        case "subscribe":
            await read_optional_object(quart.request)
            return await _subscribe(doors, caller, instance, task_id)
        case _:
            raise MethodNotFound(f"cannot POST `:{verb[:64]}` to a task" if verb else "cannot POST to a task: name a verb")


async def push_configs(doors: Doors, caller: Caller, instance: str, ref: str, config: str = "") -> quart.Response:
    """Every push notification operation."""
    raise PushNotificationNotSupported("cannot set up push notifications: this host has none")


async def extended_card(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /extendedAgentCard`."""
    raise UnsupportedOperation("cannot show an extended agent card: this agent has none")


async def agent_card(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /.well-known/agent-card.json` (§8.2, §8.6)."""
    found = doors.host.instance(instance)
    commands = tuple((adapter, mode) for adapter, modes in found.adapters for mode in modes)
    base = doors.settings.public_url or quart.request.host_url.rstrip("/")
    prefix = "" if instance == doors.host.default_instance else f"/agents/{instance}"
    needs_bearer = PEER.get().door == "tcp" and not PEER.get().open_access
    spelled = card.agent_card(card.CardFacts(instance, base + prefix, doors.version, commands, needs_bearer))
    made = answer(spelled)
    made.headers["Cache-Control"] = f"public, max-age={CARD_MAX_AGE_S}"
    made.headers["Last-Modified"] = http_date(doors.started)
    made.headers["ETag"] = card.etag(spelled)
    made.headers["Vary"] = "Host"
    return await made.make_conditional(quart.request)


def split_verb(ref: str) -> tuple[str, str]:
    """A task's id and the verb behind its last colon, empty without one."""
    task_id, colon, verb = ref.rpartition(":")
    return (task_id, verb) if colon else (ref, "")


def cancel_reason(request: CancelRequest) -> str | None:
    """Why the caller cancels: `metadata.reason`, a convention of ours that any client may leave out."""
    reason = (request.metadata or {}).get("reason")
    return reason if isinstance(reason, str) else None


async def _subscribe(doors: Doors, caller: Caller, instance: str, task_id: str) -> quart.Response:
    after = last_event_id(quart.request.headers.get("Last-Event-ID"))
    task_id = v10.decode_subscribe({"id": task_id})
    return _follow(doors, await subscribe(doors.host, caller, instance, task_id, after=after))


def _follow(doors: Doors, found: TaskStream) -> quart.Response:
    return doors.follow(found, encode=v10.encode_stream_item, encode_refusal=_status_body)


def _status_body(refusal: Refusal) -> dict[str, Any]:
    return to_rest(refusal)[1]


def _answer(value: Any) -> quart.Response:
    return answer(value, media_type=A2A_JSON if wants_a2a_json(quart.request) else JSON)
