"""Does what a caller's task belongs to go on with it, is every attempt on record, and is what is not offered refused?"""

from __future__ import annotations

import json
import uuid

from tests.cockpit.caller import ASK, LINKS, TRACE, command, open_prompts
from tests.support.tokens import sandboxd


def test_push_notifications_are_refused_by_every_way_as_the_card_says(cockpit, shared, caller):
    task = caller.start(shared, [["print", "x"]])
    config = {"taskId": task["id"], "id": "p", "url": "https://example.com/hook"}
    with_send = {"message": command(shared, [ASK]), "configuration": {"taskPushNotificationConfig": config}}
    configs = f"/tasks/{task['id']}/pushNotificationConfigs"
    refused = [
        caller.call("SendMessage", "/message:send", with_send),
        caller.call("CreateTaskPushNotificationConfig", configs, config),
        caller.call("ListTaskPushNotificationConfigs", configs, {"taskId": task["id"]}, get=True),
        caller.call("GetTaskPushNotificationConfig", f"{configs}/p", {"taskId": task["id"], "id": "p"}, get=True),
    ]
    for answer in refused:
        assert answer.status_code == (200 if caller.rpc else 400), answer.text
        assert (answer.json()["error"]["code"] == -32003) is caller.rpc
        assert "PUSH_NOTIFICATION_NOT_SUPPORTED" in answer.text
    assert len([one for one in cockpit.audit() if one["event"] == "mission-started"]) == 1


def test_what_a_task_belongs_to_goes_on_with_it_and_is_in_no_envelope(cockpit, shared, caller):
    said = {"mission": "boss-7", "flow": "nightly", "issue": "org/repo#12", "provider": "<none>"}
    caller.http.headers["traceparent"] = f"00-{TRACE}-b7ad6b7169203331-01"
    task = caller.start(shared, [ASK], metadata={LINKS: said})
    (theirs,) = [one for one in open_prompts(cockpit) if one["question"].startswith("Proceed")]
    caller.answer(task, {"answer": "maybe"})
    caller.answer(task, {"answer": "apply"})
    caller.answer(task, {"answer": "stop"})
    caller.answer(task, {"answer": "stop"}, prompt_id=str(uuid.uuid4()))
    caller.until(task, "COMPLETED")
    with cockpit.client("alice") as client:
        (mission,) = client.get("/api/missions").json()["missions"]

    links = {"mission": mission["mission_id"], "flow": "nightly", "issue": "org/repo#12", "trace": TRACE}
    links |= {"parent": "boss-7", "sandbox": "here"}
    entries = cockpit.audit()
    assert mission["links"] == links
    assert all(one["links"] == {"provider": None, **links} for one in entries)
    tries = [(one["event"], one["outcome"]) for one in entries if one["channel"] == "relay"]
    assert tries == [
        ("mission-started", "starting"),
        ("told", "asked"),
        ("voted", "invalid"),
        ("voted", "decided"),
        ("taken", "responded"),
        ("voted", "closed"),
        ("voted", "unknown"),
    ]
    exported = [json.loads(line) for line in sandboxd(shared, "audit", "export", "--json").stdout.splitlines()]
    (sent,) = [one for one in exported if one.get("task_id") == theirs["task_id"] and one["action"] == "send"]
    assert sent["links"] == links
    with shared.client() as client:
        whole = client.get(f"/tasks/{theirs['task_id']}").json()
    metadata = whole["history"][0]["metadata"]
    assert metadata[LINKS] == links
    assert metadata["traceparent"].startswith(f"00-{TRACE}-")
    for message in whole["history"]:
        for uri, value in message.get("metadata", {}).items():
            assert "nightly" not in json.dumps(value) or uri == LINKS
