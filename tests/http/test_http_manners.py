"""Is each request answered in the version and the manner in which it speaks?"""

from __future__ import annotations

import pytest
from werkzeug.datastructures import Headers

from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.http.manners import speech_of
from tests.http.test_http_compat import SEND
from tests.http.tiny_host import message, rpc, tiny_host

SAID_10 = {"A2A-Version": "1.0"}
SAID_03 = {"A2A-Version": "0.3"}
NEW_NAMES = {"A2A-Extensions": "urn:x"}
OLD_NAMES = {"X-A2A-Extensions": "urn:x"}


@pytest.mark.parametrize(
    ("path", "headers", "told"),
    [
        ("/", {}, "0.3 rpc"),
        ("/agents/box", SAID_10, "1.0 rpc"),
        ("/v1/rpc", {}, "0.3 rpc"),
        ("/agents/box/v1", {}, "0.3 rpc"),
        ("/message:send", SAID_10, "1.0 rest"),
        ("/message:send", {}, "0.3 rest03"),
        ("/agents/box/v1/message:stream", NEW_NAMES, "0.3 rest03"),
        ("/messages:send", {}, "0.3 dialect"),
        ("/v1/messages:stream", SAID_03, "0.3 dialect"),
        ("/tasks/t", SAID_10, "1.0 rest"),
        ("/tasks/t", {}, "0.3 dialect"),
        ("/tasks/t", SAID_03, "0.3 rest03"),
        ("/tasks/t", SAID_03 | NEW_NAMES, "0.3 dialect"),
        ("/v1/tasks/t", {}, "0.3 rest03"),
        ("/v1/tasks/t", NEW_NAMES, "0.3 dialect"),
        ("/agents/box/v1/tasks/t", {}, "0.3 dialect"),
        ("/agents/box/v1/tasks/t", OLD_NAMES | NEW_NAMES, "0.3 rest03"),
        ("/agents/box/v1/tasks/t:cancel", {}, "0.3 rest03"),
        ("/agents/box/tasks/t/cancel", {}, "0.3 dialect"),
        ("/v1/tasks/t/subscribe", OLD_NAMES, "0.3 dialect"),
        ("/tasks/t/artifacts/a", SAID_10, "1.0 rest"),
        ("/v1/tasks/t/artifacts", SAID_03, "0.3 dialect"),
        ("/v1/card", {}, "0.3 rest03"),
        ("/agents/box/0.3/v1/tasks/t", {}, "0.3 rest03"),
        ("/0.3/v1/tasks", {}, "0.3 rest03"),
        ("/agents/box/0.3/tasks/t/pushNotificationConfigs/c", {}, "0.3 rest03"),
        ("/agents/box/0.3/v1/tasks/t", NEW_NAMES, "0.3 dialect"),
        ("/agents/box/0.3/v1/messages:send", {}, "0.3 dialect"),
        ("/agents/box/0.3/v1/tasks/t", SAID_10, "1.0 rest03"),
        ("/metrics", {}, "0.3 rest"),
        ("/agents/box/tasks", {"A2A-Version": "7.0"}, "1.0 rest"),
    ],
)
def test_the_version_then_the_path_then_the_headers_decide(path: str, headers: dict[str, str], told: str) -> None:
    speech = speech_of(path, Headers(headers), [])

    assert f"{speech.version} {speech.manner}" == told


def test_a_version_in_the_query_counts_as_much_as_one_in_the_header():
    assert speech_of("/tasks", Headers(), [("a2a-version", "1.0")]).manner == "rest"
    assert speech_of("/tasks", Headers(SAID_10), [("A2A-Version", "0.3")]).version == "1.0"


async def test_one_url_serves_both_versions_of_jsonrpc(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        new = await client.post("/rpc/", json=rpc("SendMessage", {"message": message()}))
        old_message = {"kind": "message", "messageId": "m-2", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
        old = await client.post("/rpc", json=rpc("message/send", {"message": old_message}), headers={"A2A-Version": ""})

    assert new.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (old.json()["result"]["kind"], old.json()["result"]["status"]["state"]) == ("task", "completed")
    assert (new.headers["a2a-version"], old.headers["a2a-version"]) == ("1.0", "0.3")
    assert "A2A-Version" in new.headers["vary"]


@pytest.mark.parametrize(
    ("method", "version", "code"),
    [
        ("message/send", "1.0", -32601),
        ("SendMessage", "", -32009),
        ("SendMessage", "0.3", -32009),
        ("tasks/list", "0.3", -32601),
        ("tasks/get", "0.3", -32602),
        ("tasks/pushNotificationConfig/set", "0.3", -32003),
        ("tasks/pushNotificationConfig/delete", "", -32003),
        ("agent/getAuthenticatedExtendedCard", "0.3", -32007),
    ],
)
async def test_methods_are_those_of_the_version(tmp_path, method, version, code):
    async with tiny_host(tmp_path) as host, host.client(**{"A2A-Version": version}) as client:
        answer = await client.post("/", json=rpc(method))

    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)


async def test_a_call_without_an_id_is_answered_in_03(tmp_path):
    async with tiny_host(tmp_path) as host, host.client(**{"A2A-Version": ""}) as client:
        unknown = await client.post("/", json={"jsonrpc": "2.0", "method": "message/ssend", "params": {}})
        ill_formed = await client.post("/", json={"jsonrpc": "2.0", "method": "message/send", "id": {"a": 1}})

    assert (unknown.json()["id"], unknown.json()["error"]["code"]) == (None, -32601)
    assert ill_formed.json()["error"]["code"] == -32600


async def test_a_refused_stream_is_a_stream_in_03_jsonrpc(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        old = await client.post("/", json=rpc("tasks/resubscribe", {"id": "none"}), headers={"A2A-Version": "0.3"})
        new = await client.post("/", json=rpc("SubscribeToTask", {"id": "none"}))

    assert old.headers["content-type"] == "text/event-stream"
    assert '"code":-32001' in old.text
    assert old.text.startswith("data: {")
    assert new.headers["content-type"] == "application/json"


async def test_03_over_http_is_protojson_of_its_proto(tmp_path):
    sent = {
        "request": {"message_id": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]},
        "configuration": {"blocking": True},
    }
    kind_style = {"message": {"kind": "message", "messageId": "n", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}}
    async with tiny_host(tmp_path) as host, host.client(**SAID_03) as client:
        task = (await client.post("/v1/message:send", json=sent)).json()["task"]
        again = (await client.post("/agents/box/v1/message:send", json=kind_style)).json()["task"]
        got = (await client.get(f"/v1/tasks/{task['id']}")).json()
        await (await host.story()).ask()
        canceled = (await client.post("/v1/tasks/task-1:cancel", json={"name": "tasks/task-1"})).json()
        refused = await client.post("/v1/tasks/task-1:cancel")

    assert (task["status"]["state"], again["status"]["state"]) == ("TASK_STATE_COMPLETED", "TASK_STATE_COMPLETED")
    assert "kind" not in task
    assert got["history"][0]["content"] == [{"text": "hi"}]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELLED"
    assert refused.status_code == refused.json()["error"]["code"] == 409
    assert refused.json()["type"] == "TaskNotCancelableError"


async def test_below_v1_only_03_is_spoken(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        new = await client.get("/v1/tasks")
        unknown = await client.get("/tasks", headers={"A2A-Version": "2.0"})

    for answer in (new, unknown):
        assert answer.status_code == 400
        assert "VERSION_NOT_SUPPORTED" in answer.text or "version.not_supported" in answer.text


async def test_a_path_with_a_tenant_is_taken(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        await host.story()
        sent = await client.post("/acme/message:send", json={"message": message()})
        got = await client.get("/agents/box/acme/tasks/task-1")
        listed = await client.get("/acme/tasks?pageSize=1")
        canceled = await client.post("/acme/tasks/task-1:cancel")
        old = await client.get("/acme/tasks/task-1", headers={"A2A-Version": "0.3"})
        nowhere = await client.get("/acme/zone/tasks/task-1")

    assert sent.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert got.json()["id"] == "task-1"
    assert listed.json()["totalSize"] == 2
    assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELED"
    assert (old.status_code, nowhere.status_code) == (400, 404)


async def test_a_refusal_has_the_media_type_that_was_asked_for(tmp_path):
    async with tiny_host(tmp_path) as host, host.client() as client:
        plain = await client.get("/tasks/none")
        asked = await client.get("/tasks/none", headers={"Accept": "application/a2a+json"})

    assert plain.headers["content-type"] == "application/json"
    assert asked.headers["content-type"] == "application/a2a+json"


async def test_the_dialect_streams_and_lists(tmp_path):
    async with tiny_host(tmp_path) as host, host.client(**{"A2A-Version": "", "A2A-Extensions": HITL_PROMPT}) as client:
        story = await host.story("done")
        await story.finish()
        shown = await client.get("/v1/tasks/done/subscribe")
        head = await client.head("/v1/tasks/done/subscribe")
        sent = await client.post("/v1/messages:send", json=SEND)
        listed = (await client.get("/tasks?limit=1&state=completed")).json()
        first = (await client.get("/v1/tasks?limit=1")).json()
        second = (await client.get("/v1/tasks", params={"limit": 1, "cursor": first["next_cursor"]})).json()

    assert shown.headers["content-type"] == "text/event-stream"
    assert shown.text.splitlines()[0] == f"id: {story.seq}"
    assert head.status_code == 404
    assert [task["id"] for task in listed["tasks"]] == ["done"]
    assert "next_cursor" not in listed
    assert {first["tasks"][0]["id"], second["tasks"][0]["id"]} == {"done", sent.json()["id"]}
