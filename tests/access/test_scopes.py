"""Does a token let its bearer do what its scopes say, at every door, and nothing more?"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon, prompt_of, state_of
from tests.support.tokens import answer_body, bearer, make_token, reason_of

ASK = ["ask", "Proceed? [y/N] "]
SECOND = """
[[instance]]
id = "second"
root = "{root}"
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Any:
    folder = tmp_path_factory.mktemp("scopes")
    (folder / "second").mkdir()
    daemon = Daemon(folder, str(node), extra=SECOND.format(root=folder / "second"))
    daemon.start()
    yield daemon
    daemon.end()


def send(host: Daemon, client: httpx.Client, steps: list[list[Any]]) -> dict[str, Any]:
    answer = client.post("/message:send", json=host.message(host.envelope(host.request(steps))))
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def rpc(client: httpx.Client, method: str, **params: Any) -> httpx.Response:
    return client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def touch(client: httpx.Client, task: dict[str, Any]) -> dict[str, httpx.Response]:
    """Every way to a task that exists, at every door."""
    at, prompt_id = f"/tasks/{task['id']}", prompt_of(task)["prompt_id"]
    body = answer_body(task, prompt_id)
    spelled = {**body["message"], "role": "user", "parts": [{"kind": "text", "text": "answer"}]}
    return {
        "get": client.get(at),
        "subscribe": client.post(f"{at}:subscribe", headers={"Accept": "text/event-stream"}),
        "artifact": client.get(f"{at}/artifacts/terminal"),
        "follow-up": client.post("/message:send", json={"message": {**body["message"], "metadata": {}}}),
        "cancel": client.post(f"{at}:cancel"),
        "answer": client.post("/message:send", json=body),
        "rpc get": rpc(client, "GetTask", id=task["id"]),
        "rpc cancel": rpc(client, "CancelTask", id=task["id"]),
        "rpc subscribe": rpc(client, "SubscribeToTask", id=task["id"]),
        "rpc answer": rpc(client, "SendMessage", **body),
        "dialect get": client.get(f"/v1{at}", headers={"A2A-Version": "0.3"}),
        "dialect artifacts": client.get(f"/v1{at}/artifacts", headers={"A2A-Version": "0.3"}),
        "dialect cancel": client.post(f"/v1{at}/cancel", headers={"A2A-Version": "0.3"}),
        "dialect answer": client.post("/messages:send", json={"message": spelled}, headers={"A2A-Version": "0.3"}),
    }


def test_a_sender_runs_its_own_tasks_from_end_to_end(host: Daemon):
    with bearer(host, make_token(host, "whole", "send", "answer", "cancel")) as client:
        task = send(host, client, [ASK, ["print", "went on"]])
        answered = client.post("/message:send", json=answer_body(task, prompt_of(task)["prompt_id"]))
        host.until(task["id"], "COMPLETED")
        other = send(host, client, [ASK])

        assert answered.status_code == 200
        assert state_of(client.get(f"/tasks/{task['id']}").json()) == "COMPLETED"
        assert client.get(f"/tasks/{task['id']}/artifacts/terminal").status_code == 200
        assert {found["id"] for found in client.get("/tasks").json()["tasks"]} == {task["id"], other["id"]}
        assert client.get("/tasks").json()["totalSize"] == 2
        assert state_of(client.post(f"/tasks/{other['id']}:cancel").json()) == "CANCELED"


def test_anothers_task_looks_like_one_that_is_not_there_at_every_door(host: Daemon):
    task = host.run([ASK])
    missing = {**task, "id": str(uuid.uuid4())}
    with bearer(host, make_token(host, "stranger", "send", "answer", "cancel")) as client:
        hidden, unknown = touch(client, task), touch(client, missing)
        listed = client.get("/tasks").json()

    for way, answer in hidden.items():
        said = answer.text.replace(task["id"], "ID")
        wanted = unknown[way].text.replace(missing["id"], "ID")
        assert (way, answer.status_code, said) == (way, unknown[way].status_code, wanted)
        assert "error" in said or "code" in said, way
    assert (listed["tasks"], listed["totalSize"]) == ([], 0)
    assert state_of(host.get(task["id"])) == "INPUT_REQUIRED"


def test_a_viewer_sees_every_task_and_changes_nothing(host: Daemon):
    task = host.run([ASK])
    with bearer(host, make_token(host, "viewer", "view")) as client:
        seen, listed = client.get(f"/tasks/{task['id']}"), client.get("/tasks").json()["tasks"]
        tried = {
            "cancel": client.post(f"/tasks/{task['id']}:cancel"),
            "answer": client.post("/message:send", json=answer_body(task, prompt_of(task)["prompt_id"])),
            "send": client.post("/message:send", json=host.message()),
            "stream": client.post("/message:stream", json=host.message()),
            "rpc": rpc(client, "CancelTask", id=task["id"]),
        }
        of_none = client.post("/tasks/none:cancel")

    assert seen.status_code == 200
    assert task["id"] in {found["id"] for found in listed}
    assert {way: answer.status_code for way, answer in tried.items()} == dict.fromkeys(tried, 403)
    assert reason_of(tried["cancel"]) == "PERMISSION_DENIED"
    assert of_none.status_code == 403  # before anything is looked up
    assert state_of(host.get(task["id"])) == "INPUT_REQUIRED"


def test_a_responder_with_view_answers_what_others_asked(host: Daemon):
    task = host.run([ASK])
    with bearer(host, make_token(host, "responder", "view", "answer")) as client:
        answered = client.post("/message:send", json=answer_body(task, prompt_of(task)["prompt_id"]))

    assert answered.status_code == 200
    host.until(task["id"], "COMPLETED")


def test_a_token_of_one_instance_finds_no_other(host: Daemon):
    with bearer(host, make_token(host, "local", "admin", options=("--instance", "second"))) as client:
        here, elsewhere, nowhere = (client.get(f"/agents/{name}/tasks") for name in ("second", "default", "nowhere"))
        at_root, metrics = client.get("/tasks"), client.get("/metrics")

    assert here.status_code == 200
    assert elsewhere.text.replace("default", "X") == nowhere.text.replace("nowhere", "X")
    assert elsewhere.status_code == nowhere.status_code == at_root.status_code == 404
    assert metrics.status_code == 403


def test_the_token_file_and_the_unix_socket_may_do_everything(host: Daemon):
    task = host.run([ASK])
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(host.folder / "api.sock")),
        base_url="http://localhost",
        headers={"A2A-Version": "1.0"},
    ) as peer:
        seen, metrics = peer.get(f"/tasks/{task['id']}"), peer.get("/metrics")
        canceled = peer.post(f"/tasks/{task['id']}:cancel")

    assert (seen.status_code, metrics.status_code, canceled.status_code) == (200, 200, 200)


def test_who_created_a_task_is_known_after_a_restart(make_daemon):
    daemon: Daemon = make_daemon()
    token = make_token(daemon, "sender", "send")
    with bearer(daemon, token) as client:
        task = client.post("/message:send", json=daemon.message()).json()["task"]
    others = daemon.run([["print", "x"]])
    daemon.stop()
    daemon.start()

    with bearer(daemon, token) as client:
        assert client.get(f"/tasks/{task['id']}").status_code == 200
        assert client.get(f"/tasks/{others['id']}").status_code == 404
