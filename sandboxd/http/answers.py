"""How is a value, or a refusal, put into an HTTP answer?

Refusals are spelled as the request speaks (`manners`): JSON-RPC error objects, google.rpc.Status (A2A 1.0 over HTTP+JSON), the
same with 0.3's own members beside it, and problem documents (the `messages:send` dialect). JSON-RPC refusals are HTTP 200,
except those of the HTTP layer itself (A2A leaves it open; SDK clients give up on anything else).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import quart

from sandboxd import errors, metrics
from sandboxd.a2a import faults, jsonrpc
from sandboxd.a2a.jsontext import dump_json
from sandboxd.errors import Refusal
from sandboxd.http.head import HEAD
from sandboxd.http.manners import Speech
from sandboxd.operations.unsent import HELD
from sandboxd.serving.refusals import House, headers_of, refusal_of
from sandboxd.store.base import StoreUnavailable

JSON: Final = "application/json"
A2A_JSON: Final = "application/a2a+json"
PROBLEM: Final = "application/problem+json"
HOUSE: Final = House("host", "store", StoreUnavailable, "sandboxd")

_HTTP_LAYER: Final = (errors.Unauthenticated, errors.Forbidden, errors.TooLarge, errors.RateLimited)


def instance_of(path: str) -> str:
    """The instance that the path names, empty for the default one."""
    steps = path.strip("/").split("/")
    return steps[1] if steps[0] == "agents" and len(steps) > 1 else ""


def answer(
    value: Any, *, status: int = 200, media_type: str = JSON, headers: Mapping[str, str] | None = None
) -> quart.Response:
    """A JSON answer."""
    body = dump_json(value)
    if held := HELD.get():
        held.spelled(len(body))
    made = quart.Response(body, status, content_type=media_type)
    made.headers.update(headers or {})
    return made


def wants_a2a_json() -> bool:
    """Whether the answer's media type is `application/a2a+json` (A2A 1.0 §11.1): only for a client that named it."""
    head = HEAD.get()
    return A2A_JSON in f"{head.get('Accept', '')},{head.get('Content-Type', '')}".lower()


def refusal_answer(
    refusal: Refusal, speech: Speech, path: str, *, call_id: jsonrpc.CallId = None, status: int | None = None
) -> quart.Response:
    """A refusal as an answer to the current request; `status` where HTTP has a finer one than the table."""
    usual, media_type, body = refusal_body(refusal, speech, path, call_id=call_id, status=status)
    if speech.manner == "rest" and wants_a2a_json():
        media_type = A2A_JSON
    made = quart.Response(body, usual, content_type=media_type)
    made.headers.update(headers_of(refusal, HOUSE))
    if isinstance(refusal, errors.RangeNotSatisfiable):
        made.headers["Content-Range"] = f"bytes */{refusal.facts['size']}"
    return made


def refusal_body(
    refusal: Refusal, speech: Speech, path: str, *, call_id: jsonrpc.CallId = None, status: int | None = None
) -> tuple[int, str, bytes]:
    """The status, the media type and the body of a refusal."""
    usual, media_type, body = _spelled(refusal, speech, path, call_id)
    if status is not None and "error" in body and speech.manner != "rpc":
        body["error"]["code"] = status
    if status is not None and speech.manner == "dialect":
        body["status"] = status
    return status or usual, media_type, dump_json(body)


def refusal_json(refusal: Refusal, speech: Speech, path: str) -> dict[str, Any]:
    """The body of a refusal, for a stream that has begun."""
    return _spelled(refusal, speech, path, None)[2]


def _spelled(refusal: Refusal, speech: Speech, path: str, call_id: jsonrpc.CallId) -> tuple[int, str, dict[str, Any]]:
    if bound := refusal.facts.get("bound"):
        metrics.BOUNDS.labels(bound=bound).inc()
    match speech.manner:
        case "rpc":
            usual = faults.to_rest(refusal)[0] if isinstance(refusal, _HTTP_LAYER) else 200
            return usual, JSON, jsonrpc.failure(call_id, refusal, version=speech.version)
        case "rest":
            usual, body = faults.to_rest(refusal)
            return usual, JSON, body
        case "rest03":
            usual, body = faults.to_rest_03(refusal)
            return usual, JSON, body
        case "dialect":
            usual, body = faults.to_problem(refusal, instance_id=instance_of(path))
            return usual, PROBLEM, body
        case _:
            assert_never(speech.manner)


def as_refusal(error: Exception) -> tuple[Refusal, int | None]:
    """What a caller is told of an error, and the HTTP status where HTTP has its own; what is ours goes to the log."""
    return refusal_of(error, HOUSE)
