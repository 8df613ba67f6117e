"""What does a JSON-RPC 2.0 request ask for, and how is it answered?

A2A 1.0 §9. No batches, and no notifications either: A2A methods have an answer, silence would hang an HTTP client. 0.3's
servers answer a call without an id under the id null, so that is done for 0.3. Whatever is wrong with a request, `id_of` finds
the id that the error has to carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxd.a2a.faults import to_jsonrpc
from sandboxd.a2a.fields import type_name
from sandboxd.a2a.versions import Version
from sandboxd.errors import InvalidParams, InvalidRequest, Problem, Refusal
from sandboxd.values import frozen

CallId = str | int | float | None


@frozen
class Call:
    """One request: `params` is {} where the request has none."""

    id: CallId
    method: str
    params: Mapping[str, Any]


def id_of(body: Any) -> CallId:
    """The id that an answer to this body carries; None when it has none that JSON-RPC allows."""
    found = body.get("id") if isinstance(body, Mapping) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def parse_call(body: Any, *, version: Version = "1.0") -> Call:
    """The request in a body that `parse_json` read; `InvalidRequest` or `InvalidParams` when it is none."""
    if isinstance(body, list):
        raise InvalidRequest("cannot take the request: batches are not part of A2A")
    if not isinstance(body, Mapping):
        raise InvalidRequest(f"cannot take the request: it must be an object, not {type_name(body)}")
    problems = []
    if body.get("jsonrpc") != "2.0":
        problems.append(Problem("jsonrpc", 'must be "2.0"'))
    method = body.get("method")
    if not isinstance(method, str) or not method:
        problems.append(Problem("method", "must be the name of a method"))
    if id_of(body) is None and (version == "1.0" or body.get("id") is not None):
        problems.append(Problem("id", "must be a string or a number: A2A methods have an answer"))
    if problems:
        raise InvalidRequest("cannot take the request: its envelope is ill-formed", problems=problems)
    params = body.get("params")
    if params is not None and not isinstance(params, Mapping):
        why = f"must be an object, not {type_name(params)}"
        raise InvalidParams("cannot take the request: its parameters are ill-formed", problems=[Problem("params", why)])
    return Call(id_of(body), str(method), params or {})


def result(call_id: CallId, value: Any) -> dict[str, Any]:
    """The answer to a call that went well; on a stream, one event of it."""
    return {"jsonrpc": "2.0", "id": call_id, "result": value}


def failure(call_id: CallId, refusal: Refusal, *, version: Version) -> dict[str, Any]:
    """The answer to a call that was refused."""
    return {"jsonrpc": "2.0", "id": call_id, "error": to_jsonrpc(refusal, version=version)}
