"""Does JSON-RPC say what A2A 1.0 §9 says?"""

from __future__ import annotations

import json

import pytest

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT
from sandboxd.errors import AnswerInvalid, DeliveryFailed, Problem, PromptNotOpen
from tests.http.tiny_host import message, rpc, tiny_host


@pytest.mark.parametrize("path", ["/", "/rpc", "/rpc/", "/agents/box", "/agents/box/", "/agents/box/rpc", "/agents/box/rpc/"])
async def test_every_spelling_of_the_url_works(tmp_path, path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post(path, json=rpc("SendMessage", {"message": message()}))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["id"] == 7
    assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_every_operation_answers(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        got = (await client.post("/", json=rpc("GetTask", {"id": "task-1", "history_length": "0"}, "a"))).json()
        listed = (await client.post("/", json=rpc("ListTasks", {"page_size": 1}))).json()
        canceled = (await client.post("/", json=rpc("CancelTask", {"id": "task-1"}))).json()

    assert (got["id"], got["result"]["id"], "history" in got["result"]) == ("a", "task-1", False)
    assert listed["result"]["totalSize"] == 1
    assert canceled["result"]["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("CreateTaskPushNotificationConfig", -32003),
        ("GetTaskPushNotificationConfig", -32003),
        ("ListTaskPushNotificationConfigs", -32003),
        ("DeleteTaskPushNotificationConfig", -32003),
        ("GetExtendedAgentCard", -32004),
        ("tasks/get", -32601),
        ("gettask", -32601),
        ("", -32600),
    ],
)
async def test_what_is_not_there_says_so(tmp_path, method, code):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/", json=rpc(method))

    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (200, code, 7)


@pytest.mark.parametrize(
    ("body", "code", "call_id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"[" * 10_000, -32700, None),
        (b"[]", -32600, None),
        (json.dumps([rpc("GetTask")]).encode(), -32600, None),
        (b'{"jsonrpc":"2.0","method":"GetTask","params":{"id":"x"}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"GetTask"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600, None),
        (b'{"jsonrpc":"1.0","id":3,"method":"GetTask"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":"q","method":7}', -32600, "q"),
        (b'{"jsonrpc":"2.0","id":3,"method":"GetTask","params":[]}', -32602, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"GetTask","params":{}}', -32602, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"SendMessage","params":{}}', -32602, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"GetTask","params":{"id":"none"}}', -32001, 3),
    ],
)
async def test_every_refusal_is_http_200_with_the_calls_id(tmp_path, body, code, call_id):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 200
    assert set(answer.json()["error"]) == {"code", "message", "data"}
    assert (answer.json()["error"]["code"], answer.json()["id"]) == (code, call_id)


async def test_another_content_type_is_an_error_object(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/", content=b"{'a': 1}", headers={"Content-Type": "text/plain"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32005)


async def test_an_unknown_version_is_refused_with_the_calls_id(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        unknown = await client.post("/", json=rpc("GetTask", {"id": "x"}), headers={"A2A-Version": "99.0"})
        absent = await client.post("/", json=rpc("GetTask", {"id": "x"}), headers={"A2A-Version": ""})

    for answer in (unknown, absent):
        assert (answer.status_code, answer.json()["id"]) == (200, 7)
        assert answer.json()["error"]["code"] == -32009


async def test_a_caller_who_is_not_known_is_401(tmp_path):
    async with tiny_host(tmp_path) as host, host.client(Authorization="Bearer no") as client:
        answer = await client.post("/", json=rpc("GetTask", {"id": "x"}))

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, -32600)
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_an_unknown_instance_and_an_unknown_path_are_told_apart(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        instance = await client.post("/agents/none", json=rpc("SendMessage", {"message": message()}))
        path = await client.post("/agents/box/none", json=rpc("SendMessage"))

    assert instance.json()["error"]["data"][0]["reason"] == "INSTANCE_NOT_FOUND"
    assert path.status_code == 404


async def test_an_envelope_that_is_malformed_names_every_field(tmp_path):
    envelope = {"adapter": "x", "mode": "fly", "colour": "red"}
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/", json=rpc("SendMessage", {"message": message(metadata={ADAPTER_COMMAND: envelope})}))

    fields = [found["field"] for found in answer.json()["error"]["data"][1]["fieldViolations"]]
    assert answer.json()["error"]["code"] == -32602
    assert any("colour" in field for field in fields)
    assert any("mode" in field for field in fields)


PROMPT = "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"
ANSWER = {"hitl_response_for": {"prompt_id": PROMPT, "payload": {"text": "y"}}}


@pytest.mark.parametrize(
    ("refusal", "code", "text"),
    [
        (PromptNotOpen("answered", facts={"prompt_id": "p"}), -32010, "hitl_already_answered_or_unknown"),
        (AnswerInvalid("no", problems=[Problem("/text", "why", "type")]), -32011, "hitl_response_invalid"),
        (DeliveryFailed("no", facts={"prompt_open": True}), -32012, "hitl_delivery_failed"),
    ],
)
async def test_a_refused_answer_is_spelled_as_the_extension_says(tmp_path, refusal, code, text):
    def refuse(*_):
        raise refusal

    async with tiny_host(tmp_path) as host, host.client(**{"A2A-Extensions": HITL_PROMPT}) as client:
        await (await host.story()).ask(PROMPT)
        host.runs.answer = refuse
        answer = await client.post("/", json=rpc("SendMessage", {"message": message(taskId="task-1", metadata=ANSWER)}))

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["message"]) == (200, code, text)
    assert answer.headers["a2a-extensions"] == HITL_PROMPT
    if code == -32011:
        assert error["data"][1]["value"]["validation_errors"] == [{"path": "/text", "keyword": "type", "message": "why"}]
