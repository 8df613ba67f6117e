"""Is every change of who is told of news on record, is none lost, and does none outlive its principal's credentials?"""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from sandboxd.operations.push import MAX_PER_TASK
from tests.courier.conftest import ALLOW
from tests.support.daemon import Daemon, prompt_of, state_of, wait_until
from tests.support.tokens import answer_body, bearer, make_token, reason_of, sandboxd

ASK: list[list[Any]] = [["ask", "Proceed? [y/N] "], ["exit", 0]]
HOOK = "https://example.com/hook?key=s3cr3t"


def records(daemon: Daemon) -> list[dict[str, Any]]:
    printed = sandboxd(daemon, "audit", "export", "--json").stdout
    return [json.loads(line) for line in printed.splitlines()]


def inline(body: dict[str, Any], **config: Any) -> dict[str, Any]:
    configuration = body.get("configuration", {})
    return {**body, "configuration": {**configuration, "taskPushNotificationConfig": {"url": HOOK, **config}}}


def send(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/message:send", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def test_every_change_of_configs_is_in_the_audit_record_with_where_it_sends_to(make_daemon):
    daemon: Daemon = make_daemon(extra=ALLOW)
    with daemon.client() as client:
        task = send(client, inline(daemon.message(), id="came-along"))
        path = f"/tasks/{task['id']}/pushNotificationConfigs"
        assert client.post(path, json={"id": "made", "url": HOOK}).status_code == 200
        assert client.post(path, json={"id": "inside", "url": "http://10.0.0.1/"}).status_code == 400
        assert client.delete(f"{path}/made").status_code == 200
        assert client.delete(f"{path}/made").status_code == 200
    found = records(daemon)

    at = "https://example.com"
    assert [(it["action"], it["outcome"], it.get("config_id"), it.get("target")) for it in found] == [
        ("send", "ACCEPTED", "came-along", at),
        ("push-create", "ACCEPTED", "made", at),
        ("push-create", "INVALID_PARAMS", "inside", "http://10.0.0.1"),
        ("push-delete", "ACCEPTED", "made", at),
        ("push-delete", "ACCEPTED", "made", None),
    ]
    assert {it["task_id"] for it in found} == {task["id"]}
    assert "s3cr3t" not in json.dumps(found)


@pytest.mark.parametrize("is_answer", [True, False])
def test_one_config_too_many_is_refused_before_anything_is_typed(pusher, is_answer: bool):
    with pusher.client() as client:
        task = send(client, pusher.message(pusher.envelope(pusher.request(ASK))))
        path = f"/tasks/{task['id']}/pushNotificationConfigs"
        for number in range(MAX_PER_TASK):
            assert client.post(path, json={"id": f"c{number}", "url": f"{HOOK}{number}"}).status_code == 200
        body = answer_body(task, prompt_of(task)["prompt_id"])
        if not is_answer:
            body["message"]["metadata"] = {}
        refused = client.post("/message:send", json=inline(body))
        told = pusher.get(task["id"])

        assert reason_of(refused) == "INVALID_PARAMS"
        assert f"has {MAX_PER_TASK} push notification configs" in refused.text
        assert state_of(told) == "INPUT_REQUIRED"
        if is_answer:  # one that takes another's place is none too many, and the prompt is still open
            assert client.post("/message:send", json=inline(body, id="c3")).status_code == 200
            assert state_of(pusher.until(task["id"], "COMPLETED")) == "COMPLETED"
            assert len(client.get(path).json()["configs"]) == MAX_PER_TASK


def test_a_full_task_of_somebody_elses_looks_like_none(pusher):
    with pusher.client() as client:
        task = send(client, pusher.message(pusher.envelope(pusher.request(ASK))))
        for number in range(MAX_PER_TASK):
            at = f"/tasks/{task['id']}/pushNotificationConfigs"
            assert client.post(at, json={"id": f"c{number}", "url": HOOK}).status_code == 200
        body = answer_body(task, prompt_of(task)["prompt_id"])
        with bearer(pusher, make_token(pusher, "stranger-17", "send", "answer")) as stranger:
            hidden = stranger.post("/message:send", json=inline(body))
        client.post(f"/tasks/{task['id']}:cancel")

    assert reason_of(hidden) == "HITL_ALREADY_ANSWERED_OR_UNKNOWN"


def test_the_cap_holds_when_everybody_adds_at_once(pusher):
    with pusher.client() as client:
        task = send(client, pusher.message(pusher.envelope(pusher.request(ASK))))
        path = f"/tasks/{task['id']}/pushNotificationConfigs"
        again = {"message": {**pusher.message()["message"], "taskId": task["id"]}}
        with ThreadPoolExecutor(8) as pool:
            made = [pool.submit(client.post, path, json={"id": f"c{number}", "url": HOOK}) for number in range(24)]
            sent = [pool.submit(client.post, "/message:send", json=inline(again, id=f"i{number}")) for number in range(8)]
            assert {job.result().status_code for job in [*made, *sent]} <= {200, 400}
        kept = client.get(path).json()["configs"]
        client.post(f"/tasks/{task['id']}:cancel")

    assert len(kept) == MAX_PER_TASK


def test_a_config_that_came_with_an_answer_is_told_what_follows_it(make_daemon, make_receiver):
    daemon: Daemon = make_daemon(extra=ALLOW)
    receiver = make_receiver()
    task = daemon.run(ASK)
    with daemon.client() as client:
        body = answer_body(task, prompt_of(task)["prompt_id"])
        send(client, inline(body, url=receiver.url("/hook")))
    wait_until(lambda: receiver.events and "COMPLETED" in json.dumps(receiver.events[-1]), what="the end")

    states = [event["statusUpdate"]["status"]["state"] for event in receiver.events if "statusUpdate" in event]
    assert "TASK_STATE_INPUT_REQUIRED" not in states


def test_a_dead_letter_is_sent_again_by_its_number(make_daemon, make_receiver):
    daemon: Daemon = make_daemon(extra=ALLOW + "tries = 1\n")
    receiver = make_receiver()
    receiver.plan = [500]
    with daemon.client() as client:
        task = send(client, inline(daemon.message(), url=receiver.url("/hook")))
        (dead,) = wait_until(lambda: client.get("/push/dead").json()["dead"], what="the dead letter")
    wait_until(lambda: len(receiver.events) == 2, what="the events after it")

    receiver.plan = [500]
    failed = sandboxd(daemon, "push", "retry", str(dead["number"]), "--json", check=False)
    assert (failed.returncode, json.loads(failed.stdout)["delivered"]) == (1, False)
    assert "500" in json.loads(failed.stdout)["why"]
    (still,) = sandboxd(daemon, "push", "dead", "--json").stdout.splitlines()
    assert json.loads(still)["tries"] == dead["tries"] + 1
    done = sandboxd(daemon, "push", "retry", "--all", "--json")
    assert json.loads(done.stdout)["delivered"] is True
    assert len(receiver.events) == 3
    assert receiver.events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert sandboxd(daemon, "push", "dead", "--json").stdout == ""
    assert [(it["action"], it["outcome"], it["task_id"]) for it in records(daemon)][1:] == [
        ("push-retry", "NOT_DELIVERED", task["id"]),
        ("push-retry", "ACCEPTED", task["id"]),
    ]


def test_only_what_is_there_can_be_sent_again_and_only_by_an_admin(make_daemon, make_receiver):
    daemon: Daemon = make_daemon(extra=ALLOW + "tries = 1\n")
    receiver = make_receiver()
    receiver.plan = [500]
    with daemon.client() as client:
        task = send(client, inline(daemon.message(), id="c", url=receiver.url("/hook")))
        (dead,) = wait_until(lambda: client.get("/push/dead").json()["dead"], what="the dead letter")
        at = f"/push/dead/{dead['number']}/retry"
        with bearer(daemon, make_token(daemon, "viewer", "view", "send")) as viewer:
            assert viewer.post(at).status_code == 403
        assert client.post("/push/dead/99/retry").status_code == 400
        assert client.post("/push/dead/x/retry").status_code == 400
        client.delete(f"/tasks/{task['id']}/pushNotificationConfigs/c")
        gone = client.post(at)
    assert reason_of(gone) == "UNSUPPORTED_OPERATION"
    assert "is gone" in gone.text


def test_a_revoked_tokens_configs_are_ended_and_nothing_more_goes_out(make_daemon, make_receiver):
    daemon: Daemon = make_daemon(extra=ALLOW)
    theirs, ours = make_receiver(), make_receiver()
    token = make_token(daemon, "leaver", "view", "send")
    task = daemon.run(ASK)
    path = f"/tasks/{task['id']}/pushNotificationConfigs"
    with bearer(daemon, token) as leaver, daemon.client() as client:
        assert leaver.post(path, json={"id": "theirs", "url": theirs.url("/hook")}).status_code == 200
        assert client.post(path, json={"id": "ours", "url": ours.url("/hook")}).status_code == 200
        sandboxd(daemon, "tokens", "revoke", "leaver")
        wait_until(lambda: len(client.get(path).json()["configs"]) == 1, what="the end of the config")
        daemon.answer(task)
        wait_until(lambda: ours.events and "COMPLETED" in json.dumps(ours.events[-1]), what="the end at the other receiver")
    daemon.stop()

    assert theirs.events == []
    with sqlite3.connect(daemon.folder / "state" / "sandboxd.sqlite3") as database:
        kept = database.execute("SELECT principal FROM push_configs").fetchall()
        noted = database.execute("SELECT principal, config FROM audit WHERE outcome = 'CREDENTIALS_GONE'").fetchall()
    database.close()
    assert kept == [("token:cli",)]
    assert noted == [("token:leaver", "theirs")]
