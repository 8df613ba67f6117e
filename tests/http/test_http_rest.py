"""Does HTTP+JSON say what A2A 1.0 §11 says?"""

from __future__ import annotations

import json

import httpx
import pytest

from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT
from tests.http.tiny_host import message, tiny_host
from tests.serving.door_server import read_all

COMMAND = {
    "adapter": "sandbox-agent-runner",
    "mode": "plan",
    "command": ["node", ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs", "--request", ".aiwg/ops/runs/a.json"],
    "working_dir": "/workspace",
}


async def test_a_message_without_an_envelope_is_echoed(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/message:send", json={"message": message("hello")})

    task = answer.json()["task"]
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "hello"


async def test_a_command_is_answered_at_once_when_asked_to(tmp_path):
    body = {
        "message": message(metadata={ADAPTER_COMMAND: COMMAND}),
        "configuration": {"returnImmediately": True},
    }
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/message:send", json=body)

    assert answer.json()["task"]["status"]["state"] == "TASK_STATE_WORKING"


async def test_a_task_is_read_at_the_root_and_below_its_instance(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        at_root = await client.get("/tasks/task-1")
        below = await client.get("/agents/box/tasks/task-1?historyLength=0")
        elsewhere = await client.get("/agents/other/tasks/task-1")
        nowhere = await client.get("/agents/none/tasks/task-1")

    assert at_root.json()["id"] == below.json()["id"] == "task-1"
    assert "history" not in below.json()
    assert elsewhere.status_code == nowhere.status_code == 404
    assert elsewhere.json()["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"
    assert nowhere.json()["error"]["details"][0]["reason"] == "INSTANCE_NOT_FOUND"


async def test_tasks_are_listed_page_by_page(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        for number in range(3):
            await host.story(f"task-{number}")
        first = (await client.get("/tasks?pageSize=2")).json()
        second = (await client.get("/tasks", params={"pageSize": 2, "pageToken": first["nextPageToken"]})).json()
        filtered = (await client.get("/tasks?status=TASK_STATE_COMPLETED&includeArtifacts=true")).json()

    assert (len(first["tasks"]), len(second["tasks"]), second["nextPageToken"]) == (2, 1, "")
    assert filtered == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


@pytest.mark.parametrize(
    "query", ["pageSize=0", "pageSize=101", "pageToken=x", "status=done", "statusTimestampAfter=now", "historyLength=-1"]
)
async def test_a_bad_query_is_named(tmp_path, query):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.get(f"/tasks?{query}")

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["details"][1]["fieldViolations"][0]["field"] == query.partition("=")[0]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"json": {}},
        {"json": {"id": "task-1", "metadata": {"reason": "enough"}}},
        {"headers": {"Content-Type": "application/json"}, "content": b""},
    ],
)
async def test_cancel_needs_no_body(tmp_path, more):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        answer = await client.post("/tasks/task-1:cancel", **more)
        again = await client.post("/tasks/task-1:cancel", **more)

    assert answer.json()["status"]["state"] == "TASK_STATE_CANCELED"
    assert again.status_code == 400
    assert again.json()["error"]["details"][0]["reason"] == "TASK_NOT_CANCELABLE"


async def test_the_verb_is_behind_the_last_colon(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story("a:b")
        answer = await client.post("/tasks/a:b:cancel")
        encoded = await client.post("/tasks/a%3Ab%3Acancel")

    assert answer.json()["id"] == "a:b"
    assert encoded.json()["error"]["details"][0]["reason"] == "TASK_NOT_CANCELABLE"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/tasks/task-1:fly", 404),
        ("POST", "/tasks/task-1:fly", 404),
        ("POST", "/tasks/task-1", 404),
        ("DELETE", "/tasks", 405),
        ("GET", "/message:send", 405),
        ("OPTIONS", "/tasks", 405),
        ("GET", "/agents", 404),
    ],
)
async def test_an_unknown_path_or_verb_is_a_json_status(tmp_path, method, path, status):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.request(method, f"{host.server.url}{path}")

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == status
    assert answer.headers["content-type"] == "application/json"
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"])
async def test_another_content_type_is_415(tmp_path, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/message:send", content=b'{"message": 1}', headers=headers)

    assert answer.status_code == answer.json()["error"]["code"] == 415
    assert answer.json()["error"]["details"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"


async def test_the_media_type_is_the_one_that_the_client_named(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        by_accept = await client.get("/tasks/task-1", headers={"Accept": "application/a2a+json"})
        by_body = await client.post(
            "/message:send",
            json={"message": message()},
            headers={"Content-Type": "application/a2a+json; charset=utf-8"},
        )

    assert by_accept.headers["content-type"] == by_body.headers["content-type"] == "application/a2a+json"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 10_000, b'{"a":' * 10_000, b"\xff", b'{"a":1,"a":2}', b"nul", b"1" * 5000]
)
async def test_a_body_that_is_no_message_is_400(tmp_path, body):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.post("/message:send", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({"A2A-Version": "1.0"}, "", 200),
        ({"A2A-Version": "1.0.3"}, "", 200),
        ({"A2A-Version": ""}, "?A2A-Version=1.0", 200),
        ({"A2A-Version": ""}, "?a2a-version=1.0", 200),
        ({"A2A-Version": ""}, "", 200),
        ({"A2A-Version": "0.3"}, "", 200),
        ({"A2A-Version": "1.7"}, "?A2A-Version=1.0", 400),
        ({"A2A-Version": "1.0, 0.3"}, "", 400),
    ],
)
async def test_the_version_is_checked_first(tmp_path, headers, query, status):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        answer = await client.get(f"/tasks/task-1{query}", headers=headers)
        without_token = await client.get(f"/tasks/task-1{query}", headers={**headers, "Authorization": ""})

    assert answer.status_code == status
    assert without_token.status_code == (401 if status == 200 else 400)
    if status == 400:
        assert answer.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_whoever_is_unknown_is_told_how_to_come_in(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        for method, path in (("GET", "/tasks"), ("POST", "/message:send"), ("GET", "/agents/none/tasks"), ("GET", "/metrics")):
            answer = await client.request(method, path, headers={"Authorization": "Bearer wrong"})

            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["error"]["status"] == "UNAUTHENTICATED"


async def test_the_unix_socket_needs_no_token(tmp_path):
    async with tiny_host(tmp_path) as host, host.server.unix_client() as client:
        answer = await client.get("/tasks", headers={"A2A-Version": "1.0"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/tasks/none/pushNotificationConfigs"),
        ("POST", "/tasks/none/pushNotificationConfigs"),
        ("GET", "/tasks/none/pushNotificationConfigs/c"),
        ("DELETE", "/agents/box/tasks/none/pushNotificationConfigs/c"),
    ],
)
async def test_push_notifications_are_not_there(tmp_path, method, path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.request(method, path)

    assert answer.json()["error"]["details"][0]["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"


async def test_there_is_no_extended_card(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        answer = await client.get("/extendedAgentCard")

    assert answer.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


async def test_the_card_is_public_and_cached(tmp_path):
    path = "/.well-known/agent-card.json"
    async with tiny_host(tmp_path) as host, httpx.AsyncClient(base_url=host.server.url) as anyone:
        answer = await anyone.get(path)
        by_tag = await anyone.get(path, headers={"If-None-Match": answer.headers["etag"]})
        by_date = await anyone.get(path, headers={"If-Modified-Since": answer.headers["last-modified"]})
        of_another = await anyone.get(f"/agents/other{path}")
        unknown = await anyone.get(f"/agents/none{path}")

    assert (answer.status_code, by_tag.status_code, by_date.status_code) == (200, 304, 304)
    assert by_tag.content == b""
    assert "max-age=" in answer.headers["cache-control"]
    assert answer.json()["supportedInterfaces"][0]["url"] == host.server.url
    assert answer.json()["securitySchemes"]
    assert of_another.json()["supportedInterfaces"][0]["url"] == f"{host.server.url}/agents/other"
    assert ADAPTER_COMMAND not in of_another.text
    assert unknown.status_code == 404


async def test_the_envelope_is_seen_by_those_who_activated_it(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await (await host.story()).ask()
        hidden = await client.get("/tasks/task-1")
        shown = await client.get("/tasks/task-1", headers={"A2A-Extensions": HITL_PROMPT})

    assert HITL_PROMPT not in hidden.text
    assert HITL_PROMPT in shown.json()["status"]["message"]["metadata"]
    assert shown.headers["a2a-extensions"] == HITL_PROMPT
    assert "a2a-extensions" not in hidden.headers


async def test_head_does_not_subscribe(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        answer = await client.head("/tasks/task-1:subscribe")

    assert answer.status_code == 404


@pytest.mark.parametrize(
    "target", ["*", "nowhere", "http://evil.example/tasks", "/%", "/%ff%00", "/..//../etc/passwd", "?", "/a?b=%zz"]
)
async def test_a_strange_target_is_answered(tmp_path, target):
    async with tiny_host(tmp_path) as host:
        stream = await host.server.connect()
        await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        answer = await read_all(stream)

    assert answer.split()[1].startswith(b"4")


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
        [("Content-Type", "application/json"), ("Content-Type", "text/plain")],
    ],
)
async def test_a_body_that_says_it_is_something_else_as_well_is_not_read(tmp_path, headers):
    body = json.dumps({"message": message()})
    async with tiny_host(tmp_path) as host, host.client() as client:
        packed = await client.post("/message:send", content=body, headers=headers)
        plain = await client.post(
            "/message:send", content=body, headers=[("Content-Type", "application/json"), ("Content-Encoding", "identity")]
        )

    assert (packed.status_code, plain.status_code) == (415, 200)
