"""How does a JSON-RPC call become an operation, and its result an answer? (A2A 1.0 §9, A2A 0.3)

The request's version says which method names there are. Every answer is HTTP 200, refusals too; what the HTTP layer itself
refuses (401, 403, 413) never gets here. In 0.3 a stream that is refused is a stream all the same, of one refusal: its SDKs read
nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import quart

from sandboxd.a2a.jsonrpc import CallId, failure, id_of, parse_call, result
from sandboxd.a2a.versions import Version
from sandboxd.errors import MethodNotFound, Refusal, VersionNotSupported
from sandboxd.http.answers import JSON, answer, as_refusal, refusal_answer
from sandboxd.http.calls import METHODS_03, METHODS_10, STREAMS, Call, Operation
from sandboxd.http.doors import Doors, current_speech, read_json
from sandboxd.http.head import HEAD
from sandboxd.http.sse import last_event_id
from sandboxd.operations.host import Caller
from sandboxd.operations.stream import Stream
from sandboxd.serving.streaming import event

_METHODS: Final = {"1.0": METHODS_10, "0.3": METHODS_03}


async def call(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """Answer the call in the body of the current request."""
    speech = current_speech()
    version, codec = speech.version, speech.codec
    body: Any = None
    is_stream = False
    try:
        body = await read_json(media_types=(JSON,))
        parsed = parse_call(body, version=version)
        operation = operation_of(parsed.method, version)
        is_stream = operation in STREAMS
        after = last_event_id(HEAD.get().get("Last-Event-ID"))
        found = await operation(Call(doors, caller, instance, codec, parsed.params, after))
    except Exception as error:
        refusal, status = as_refusal(error)
        if isinstance(refusal, VersionNotSupported):  # it calls 1.0's methods, so it reads 1.0's refusals
            speech = attrs.evolve(speech, version="1.0")
        if speech.version == "0.3" and is_stream:
            told = failure(id_of(body), refusal, version="0.3")
            return quart.Response(event(told), 200, content_type="text/event-stream")
        return refusal_answer(refusal, speech, HEAD.get().path, call_id=id_of(body), status=status)
    if is_stream:
        return _follow(doors, found, parsed.id)
    return answer(result(parsed.id, found))


def operation_of(method: str, version: Version) -> Operation:
    """The operation of that name; `VersionNotSupported` where it is 1.0's and no version was asked for."""
    if (operation := _METHODS[version].get(method)) is not None:
        return operation
    if version == "0.3" and method in METHODS_10:
        why = f"cannot call `{method}`: without `A2A-Version: 1.0` a request is A2A 0.3, which has no such method"
        raise VersionNotSupported(why, facts={"supported_versions": ["1.0", "0.3"]})
    hint = "; it is A2A 0.3's" if method in METHODS_03 else ""
    raise MethodNotFound(f"cannot call `{method[:64]}`: A2A {version} has no such method{hint}")


def _follow(doors: Doors, found: Stream, call_id: CallId) -> quart.Response:
    speech = current_speech()

    def refused(refusal: Refusal) -> dict[str, Any]:
        return failure(call_id, refusal, version=speech.version)

    return doors.follow(
        found, encode=lambda item: result(call_id, speech.codec.encode_stream_item(item)), encode_refusal=refused
    )
