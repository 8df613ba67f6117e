"""How is a message that is sent again told what came of it? (idempotency/v1)

One layer around every door: what a send is, is told by its path or its JSON-RPC method. Where a task came of the message, the
door's own handler runs again with `Caller.earlier`: it acts on nothing and tells the same story from the same event on, as a
body or as a stream. A refusal is replayed as it went out; only a JSON-RPC answer gets the id of the call that asks now.
Refusals that the same request can outlive (429, 503: those that carry `Retry-After`) are not kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import quart

from sandboxd.a2a.extensions import IDEMPOTENCY
from sandboxd.a2a.jsonrpc import id_of
from sandboxd.a2a.jsontext import dump_json, parse_json
from sandboxd.errors import MessageIdReused, Refusal
from sandboxd.http.doors import Doors, current_speech, read_json
from sandboxd.http.head import HEAD
from sandboxd.operations.host import Caller, Earlier
from sandboxd.operations.once import Turn, identify
from sandboxd.store.base import SendRecord, Told

REPLAYED: Final = "Idempotent-Replayed"
_SENDS: Final = ("message:send", "message:stream", "messages:send", "messages:stream")
_CALLS: Final = ("SendMessage", "SendStreamingMessage", "message/send", "message/stream")
_REFUSAL_MAX_BYTES: Final = 256 * 1024

Respond = Callable[[Caller], Awaitable[quart.Response]]


async def act_once(doors: Doors, caller: Caller, instance: str, respond: Respond) -> quart.Response:
    """The answer to the current request; `respond` makes it, refusals included.

    Raises `MessageIdMalformed`, `MessageIdReused`, `NotReady`, and only before `respond` is called.
    """
    if IDEMPOTENCY not in caller.extensions or HEAD.get().method != "POST":
        return await respond(caller)
    params = await _params()
    request = identify(caller.principal, instance, params) if params is not None else None
    if request is None:
        return await respond(caller)
    async with doors.host.once.turn(request) as turn:
        if turn.found is None:
            made = await respond(caller)
            return await _keep(doors, turn, caller, made)
    # Its turn is over: telling again changes nothing, and may take as long as the task does.
    return await _tell_again(turn.found, caller, respond)


async def _params() -> Mapping[str, Any] | None:
    """The parameters of a send; None when the request is none, or is so ill-formed that its door refuses it."""
    is_rpc = _is_rpc()
    if not is_rpc and not HEAD.get().path.rstrip("/").endswith(_SENDS):
        return None
    try:
        body = await read_json()
    except Refusal:
        return None
    if is_rpc:
        is_send = isinstance(body, Mapping) and body.get("method") in _CALLS
        body = body.get("params") if is_send else None
    return body if isinstance(body, Mapping) else None


async def _keep(doors: Doors, turn: Turn, caller: Caller, made: quart.Response) -> quart.Response:
    if made.mimetype == "text/event-stream" or "Retry-After" in made.headers:
        return made
    body = await made.get_data(as_text=False)
    assert isinstance(body, bytes)
    if not _is_refusal(made.status_code, body):
        return made  # where a task came of it, its own transaction has noted that
    headers = tuple((name, value) for name, value in made.headers.items() if name.lower() != "content-length")
    await doors.host.once.refused(turn, Told(_door(caller), made.status_code, headers, body))
    return made


async def _tell_again(found: SendRecord, caller: Caller, respond: Respond) -> quart.Response:
    if found.task_id is not None:
        assert found.seq is not None
        made = await respond(attrs.evolve(caller, earlier=Earlier(found.task_id, found.seq)))
    else:
        assert found.told is not None
        if found.told.door != _door(caller):
            facts = {"stored_hash": found.digest, "request_hash": found.digest}
            why = "it was refused at another door or with other extensions"
            raise MessageIdReused(f"cannot take the message: its id is not new, {why}", facts=facts)
        made = quart.Response(await _for_this_call(found.told.body), found.told.status)
        for name, value in found.told.headers:
            made.headers[name] = value
    if "Retry-After" not in made.headers:
        made.headers[REPLAYED] = "true"
    return made


async def _for_this_call(body: bytes) -> bytes:
    """The kept body; a JSON-RPC answer with the id of this call."""
    if not _is_rpc():
        return body
    return dump_json({**parse_json(body), "id": id_of(await read_json())})


def _is_refusal(status: int, body: bytes) -> bool:
    """Whether it is a refusal, and small enough to keep, as all of ours are."""
    if len(body) > _REFUSAL_MAX_BYTES:
        return False
    return status >= 400 or (_is_rpc() and "error" in parse_json(body))


def _is_rpc() -> bool:
    return current_speech().manner == "rpc"


def _door(caller: Caller) -> str:
    """How an answer here is spelled: by the request's manner and version, and the extensions besides this one."""
    speech = current_speech()
    return " ".join([speech.manner, speech.version, *sorted(caller.extensions - {IDEMPOTENCY})])
