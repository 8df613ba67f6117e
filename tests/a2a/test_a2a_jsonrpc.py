"""Which calls are taken, and how are they answered?"""

from __future__ import annotations

from typing import Any

import pytest

from sandboxd.a2a import jsonrpc
from sandboxd.errors import InvalidParams, InvalidRequest, MethodNotFound, Refusal

CALL = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}


def changed(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in (CALL | changes).items() if value is not ...}


def test_a_call_is_read() -> None:
    assert jsonrpc.parse_call(CALL) == jsonrpc.Call(1, "GetTask", {"id": "t"})
    assert jsonrpc.parse_call(changed(params=...)).params == {}
    assert jsonrpc.parse_call(changed(params=None)).params == {}
    assert jsonrpc.parse_call(changed(id="a", novel=1)).id == "a"
    assert jsonrpc.parse_call(changed(id=0)).id == 0


@pytest.mark.parametrize(
    ("body", "refusal", "call_id"),
    [
        ([CALL], InvalidRequest, None),
        ("text", InvalidRequest, None),
        (None, InvalidRequest, None),
        ({}, InvalidRequest, None),
        (changed(jsonrpc="1.0"), InvalidRequest, 1),
        (changed(jsonrpc=...), InvalidRequest, 1),
        (changed(method=5), InvalidRequest, 1),
        (changed(method=""), InvalidRequest, 1),
        (changed(id=...), InvalidRequest, None),
        (changed(id=None), InvalidRequest, None),
        (changed(id=True), InvalidRequest, None),
        (changed(id={}), InvalidRequest, None),
        (changed(params=[1]), InvalidParams, 1),
        (changed(params="x"), InvalidParams, 1),
    ],
)
def test_an_ill_formed_call_is_refused_and_its_id_still_found(body: Any, refusal: type[Refusal], call_id: Any) -> None:
    with pytest.raises(refusal):
        jsonrpc.parse_call(body)

    assert jsonrpc.id_of(body) == call_id


def test_answers_carry_the_calls_id() -> None:
    assert jsonrpc.result("a", {"k": 1}) == {"jsonrpc": "2.0", "id": "a", "result": {"k": 1}}
    failure = jsonrpc.failure(None, MethodNotFound("cannot call `Foo`: there is no such method"), version="1.0")
    assert failure["id"] is None
    assert failure["error"]["code"] == -32601
    assert failure["error"]["message"] == "Method not found: cannot call `Foo`: there is no such method"
