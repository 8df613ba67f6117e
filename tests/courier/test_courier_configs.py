"""May a config be made, seen and deleted by those who may, in every version, and are its secrets kept?"""

from __future__ import annotations

import json
import uuid

import pytest

from sandboxd.operations.push import MAX_PER_TASK
from tests.courier.conftest import ALLOW
from tests.support.daemon import Daemon, wait_until
from tests.support.tokens import bearer, make_token, reason_of, sandboxd

SECRETS = ("s3cr3t-token", "s3cr3t-credentials", "s3cr3t-key", "s3cr3t-query")
CONFIG = {
    "url": "https://example.com/hook?key=s3cr3t-query",
    "token": "s3cr3t-token",
    "authentication": {"scheme": "Bearer", "credentials": "s3cr3t-credentials"},
    "secret": "s3cr3t-key",
}


@pytest.fixture
def task(pusher):
    with pusher.client() as client:
        return client.post("/message:send", json=pusher.message()).json()["task"]


def call(method: str, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_the_card_promises_notifications(pusher):
    with pusher.client() as client:
        assert client.get("/.well-known/agent-card.json").json()["capabilities"]["pushNotifications"] is True


def test_a_config_of_10_is_made_read_listed_and_deleted_over_both_doors(pusher, task):
    with pusher.client() as client:
        path = f"/tasks/{task['id']}/pushNotificationConfigs"
        made = client.post(path, json={"id": "one", "url": "https://example.com/hook"}).json()
        assert made == {"taskId": task["id"], "id": "one", "url": "https://example.com/hook"}
        assert client.get(f"{path}/one").json() == made
        other = client.post("/", json=call("CreateTaskPushNotificationConfig", taskId=task["id"], url="https://example.com/2"))
        other = other.json()["result"]
        listed = client.post("/", json=call("ListTaskPushNotificationConfigs", taskId=task["id"])).json()["result"]
        assert listed == {"configs": [made, other], "nextPageToken": ""}
        found = client.post("/", json=call("GetTaskPushNotificationConfig", taskId=task["id"], id=other["id"])).json()
        assert found["result"] == other
        for _ in range(2):
            gone = client.post("/", json=call("DeleteTaskPushNotificationConfig", taskId=task["id"], id=other["id"]))
            assert gone.json()["result"] == {}
            gone = client.delete(f"{path}/one")
            assert (gone.status_code, gone.json()) == (200, {})
        assert client.get(path).json()["configs"] == []
        assert reason_of(client.get(f"{path}/one")) == "TASK_NOT_FOUND"
        assert client.get(f"/tasks/{uuid.uuid4()}/pushNotificationConfigs").status_code == 404


def test_a_config_of_03_is_made_and_read_as_03_spells_it(pusher, task):
    name = "tasks/pushNotificationConfig"
    inner = {"url": "https://example.com/hook", "authentication": {"schemes": ["Bearer"], "credentials": "x"}}
    with pusher.client(version="0.3") as client:
        made = client.post("/", json=call(f"{name}/set", taskId=task["id"], pushNotificationConfig=inner)).json()["result"]
        config_id = made["pushNotificationConfig"]["id"]
        assert made["pushNotificationConfig"] == {
            "id": config_id,
            "url": "https://example.com/hook",
            "authentication": {"schemes": ["Bearer"]},
        }
        for wanted in ({"pushNotificationConfigId": config_id}, {"pushNotificationConfigId": "default"}, {}):
            assert client.post("/", json=call(f"{name}/get", id=task["id"], **wanted)).json()["result"] == made
        gone = client.post("/", json=call(f"{name}/delete", id=task["id"], pushNotificationConfigId=config_id)).json()
        assert gone["result"] is None
        assert "error" in client.post("/", json=call(f"{name}/get", id=task["id"])).json()
    headers = {"X-A2A-Extensions": "x"}
    with pusher.client(version="0.3", extensions=(), headers=headers) as client:
        body = {"parent": f"tasks/{task['id']}", "configId": "c-1", "config": {"pushNotificationConfig": inner}}
        made = client.post(f"/v1/tasks/{task['id']}/pushNotificationConfigs", json=body).json()
        assert made["name"] == f"tasks/{task['id']}/pushNotificationConfigs/c-1"
        assert made["pushNotificationConfig"]["id"] == "c-1"


def test_no_secret_is_told_to_anybody_again_nor_logged(pusher, task):
    nosy, admin = make_token(pusher, "nosy", "view"), make_token(pusher, "boss", "admin")
    path = f"/tasks/{task['id']}/pushNotificationConfigs"
    with pusher.client() as owner, bearer(pusher, nosy) as other, bearer(pusher, admin) as boss:
        made = owner.post(path, json={**CONFIG, "id": "mine"})
        assert made.status_code == 200, made.text
        for answer in (made, owner.get(f"{path}/mine"), owner.get(path)):
            assert "s3cr3t-token" in answer.text, "its creator knows it"
            assert "s3cr3t-credentials" not in answer.text
            assert "s3cr3t-key" not in answer.text
        assert other.get(path).json()["configs"] == []
        assert other.get(f"{path}/mine").status_code == 404
        assert other.delete(f"{path}/mine").status_code == 200
        assert other.post(path, json={"id": "mine", "url": "https://example.com/theirs"}).status_code == 200
        assert owner.get(f"{path}/mine").json()["url"] == CONFIG["url"], "nobody takes another's place"
        shown = boss.get(path)
        assert [config["id"] for config in shown.json()["configs"]] == ["mine", "mine"]
        assert not [secret for secret in SECRETS if secret in shown.text]
        bad = owner.post(path, json={**CONFIG, "url": "http://10.0.0.1/?key=s3cr3t-query"})
        assert bad.status_code == 400
        assert not [secret for secret in SECRETS if secret in bad.text]
    log = (pusher.folder / "log").read_text()
    assert not [secret for secret in SECRETS if secret in log]


def test_a_url_that_leads_inside_is_refused_before_anything_is_done(pusher, task):
    path = f"/tasks/{task['id']}/pushNotificationConfigs"
    with pusher.client() as client:
        for url in (
            "http://10.0.0.1/",
            "http://[::1]/",
            "http://0x7f000001/",
            "file:///etc/passwd",
            "https://e.test/" + 2048 * "a",
        ):
            assert reason_of(client.post(path, json={"url": url})) == "INVALID_PARAMS"
        total = client.get("/tasks").json()["totalSize"]
        body = {**pusher.message(), "configuration": {"taskPushNotificationConfig": {"url": "http://10.0.0.1/"}}}
        assert reason_of(client.post("/message:send", json=body)) == "INVALID_PARAMS"
        assert client.get("/tasks").json()["totalSize"] == total


def test_a_task_has_a_bounded_number_of_configs(pusher, task):
    path = f"/tasks/{task['id']}/pushNotificationConfigs"
    with pusher.client() as client:
        for number in range(MAX_PER_TASK):
            assert client.post(path, json={"id": f"c{number}", "url": "https://example.com/"}).status_code == 200
        assert reason_of(client.post(path, json={"url": "https://example.com/"})) == "INVALID_PARAMS"
        assert client.post(path, json={"id": "c3", "url": "https://example.com/new"}).status_code == 200
        assert client.delete(f"{path}/c4").status_code == 200
        assert client.post(path, json={"url": "https://example.com/"}).status_code == 200


def test_what_never_got_through_is_a_dead_letter_and_the_rest_is_still_sent(make_daemon, make_receiver):
    daemon: Daemon = make_daemon(extra=ALLOW + "tries = 2\n")
    receiver = make_receiver()
    receiver.plan = [500, 503]
    body = {
        **daemon.message(),
        "configuration": {"taskPushNotificationConfig": {"url": receiver.url("/hook?key=s3cr3t-query")}},
    }
    with daemon.client() as client:
        task = client.post("/message:send", json=body).json()["task"]
    wait_until(lambda: len(receiver.events) == 2, what="the events after the first")

    (line,) = sandboxd(daemon, "push", "dead", "--json").stdout.splitlines()
    dead = json.loads(line)
    assert (dead["task_id"], dead["event"], dead["tries"]) == (task["id"], 1, 2)
    assert "503" in dead["why"]
    assert "s3cr3t-query" not in line
    view_only = make_token(daemon, "viewer", "view")
    with bearer(daemon, view_only) as client:
        assert client.get("/push/dead").status_code == 403


def test_a_host_without_notifications_says_so(make_daemon):
    daemon: Daemon = make_daemon(extra="[push]\nenabled = false\n")
    with daemon.client() as client:
        assert client.get("/.well-known/agent-card.json").json()["capabilities"]["pushNotifications"] is False
        body = {**daemon.message(), "configuration": {"taskPushNotificationConfig": {"url": "https://example.com/"}}}
        for answer in (
            client.post("/message:send", json=body),
            client.post("/tasks/x/pushNotificationConfigs", json={}),
            client.get("/tasks/x/pushNotificationConfigs"),
            client.get("/tasks/x/pushNotificationConfigs/y"),
            client.delete("/tasks/x/pushNotificationConfigs/y"),
        ):
            assert reason_of(answer) == "PUSH_NOTIFICATION_NOT_SUPPORTED"
