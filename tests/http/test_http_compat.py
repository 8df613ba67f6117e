"""Does the `messages:send` dialect say what the specs and the samples say?"""

from __future__ import annotations

import pytest

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT
from sandboxd.errors import AnswerInvalid, Problem, PromptNotOpen
from tests.http.test_http_rest import COMMAND
from tests.http.tiny_host import tiny_host

PROMPT = "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"
SEND = {
    "message": {
        "messageId": "5d1f0d7e-2f0a-4f6f-9d1c-0a8f6f0e2b11",
        "role": "user",
        "parts": [{"kind": "text", "text": "Run the bounded plan adapter."}],
        "metadata": {ADAPTER_COMMAND: {**COMMAND, "input_mode": "text-line"}},
    }
}
ANSWER = {
    "message": {
        "messageId": "9a0c1b9e-61d7-4a83-8c3a-6d3c2b1a0f99",
        "role": "user",
        "taskId": "task-1",
        "parts": [{"type": "data", "data": {"text": "y"}}],
        "metadata": {"hitl_response_for": {"prompt_id": PROMPT, "payload": {"text": "y"}}},
    }
}
DIALECT = {"A2A-Version": "", "A2A-Extensions": HITL_PROMPT}


@pytest.mark.parametrize("path", ["/agents/box/messages:send", "/agents/box/v1/messages:send", "/messages:send"])
async def test_a_new_task_is_202_with_its_location(tmp_path, path):
    async with tiny_host(tmp_path) as host, host.client(**DIALECT) as client:
        answer = await client.post(path, json=SEND)
        followed = await client.get(answer.headers["location"])

    task = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/agents/box/v1/tasks/{task['id']}"
    assert answer.headers["a2a-extensions"] == HITL_PROMPT
    assert (task["kind"], task["status"]["state"]) == ("task", "working")
    assert followed.json()["id"] == task["id"]


async def test_an_echo_is_202_too(tmp_path):
    body = {"message": {"messageId": "m", "role": "user", "parts": [{"text": "hi"}]}}
    async with tiny_host(tmp_path) as host, host.client(**DIALECT) as client:
        answer = await client.post("/agents/box/messages:send", json=body)

    assert (answer.status_code, answer.json()["status"]["state"]) == (202, "completed")
    assert answer.json()["artifacts"][0]["parts"][0]["text"] == "hi"


async def test_a_closed_prompt_is_409_and_a_bad_payload_422(tmp_path):
    refusals = iter(
        [
            PromptNotOpen("the prompt was answered", facts={"prompt_id": PROMPT, "accepted_message_id": "m"}),
            AnswerInvalid("1 field does not fit", problems=[Problem("/text", "why", "type")], facts={"prompt_id": PROMPT}),
        ]
    )

    def refuse(*_):
        raise next(refusals)

    async with tiny_host(tmp_path) as host, host.client(**DIALECT) as client:
        await (await host.story()).ask(PROMPT)
        host.runs.answer = refuse
        conflict = await client.post("/agents/box/messages:send", json=ANSWER)
        invalid = await client.post("/agents/box/messages:send", json=ANSWER)

    assert (conflict.status_code, invalid.status_code) == (409, 422)
    assert conflict.headers["content-type"] == invalid.headers["content-type"] == "application/problem+json"
    assert conflict.json()["code"] == "hitl_already_answered_or_unknown"
    assert conflict.json()["accepted_message_id"] == "m"
    assert conflict.json()["instance_id"] == "box"
    assert invalid.json()["validation_errors"] == [{"path": "/text", "keyword": "type", "message": "why"}]


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "request.invalid_json"),
        ({"json": {}}, 400, "request.invalid_params"),
        ({"json": SEND, "headers": {"A2A-Extensions": ""}}, 400, "request.invalid_params"),
        ({"json": {"message": {**ANSWER["message"], "taskId": "none"}}}, 409, "hitl_already_answered_or_unknown"),
        ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415, "request.content_type_not_supported"),
        ({"json": SEND, "headers": {"A2A-Version": "1.0"}}, 400, "version.not_supported"),
        ({"json": SEND, "headers": {"Authorization": ""}}, 401, "auth.unauthenticated"),
    ],
)
async def test_refusals_are_problem_documents(tmp_path, more, status, code):
    async with tiny_host(tmp_path) as host, host.client(**DIALECT) as client:
        answer = await client.post("/agents/box/messages:send", **more)

    assert (answer.status_code, answer.json()["code"], answer.json()["status"]) == (status, code, status)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_task_is_read_listed_and_canceled_in_the_dialect(tmp_path):
    async with tiny_host(tmp_path) as host, host.client(**DIALECT) as client:
        await (await host.story()).write(b"out\n", last=True)
        task = (await client.get("/agents/box/v1/tasks/task-1")).json()
        listed = (await client.get("/agents/box/v1/tasks/task-1/artifacts")).json()
        raw = await client.get("/agents/box/v1/tasks/task-1/artifacts/terminal")
        canceled = (await client.post("/agents/box/v1/tasks/task-1/cancel")).json()
        again = await client.post("/agents/box/v1/tasks/task-1:cancel")
        unknown = await client.get("/agents/box/v1/tasks/none")
        nowhere = await client.get("/agents/box/v1/nowhere")

    assert task["artifacts"] == listed["artifacts"]
    assert task["artifacts"][0]["parts"][0]["text"] == "out\n"
    assert raw.content == b"out\n"
    assert canceled["status"]["state"] == "canceled"
    assert (again.status_code, again.json()["code"]) == (409, "task.not_cancelable")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "task.not_found")
    assert (nowhere.status_code, nowhere.headers["content-type"]) == (404, "application/problem+json")
