"""Is every change of a task's state told to those who asked, once it happened, in order, and as they can read it?"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import psutil

from tests.courier.conftest import ALLOW
from tests.support.daemon import HITL, Daemon, prompt_of, wait_until
from tests.support.orchestrator import Orchestrator, prompt_in
from tests.support.programs import begun

SECRET = "a secret of sixteen characters"
ASK: list[list[Any]] = [["ask", "Apply the change? [y/N] "], ["exit", 0]]


def states_10(events: list[dict[str, Any]]) -> list[str]:
    """The states in order; a notice on the same state (an answer was read, say) is no new one."""
    found = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    return [state.removeprefix("TASK_STATE_") for state, _ in itertools.groupby(found)]


def run_with(daemon: Daemon, config: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A task that asks, with an inline config."""
    body = daemon.message(daemon.envelope(daemon.request(ASK)))
    body["configuration"] = {"taskPushNotificationConfig": config}
    with daemon.client(**options) as client:
        answer = client.post("/message:send", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def test_an_orchestrator_answers_a_prompt_that_was_pushed_to_it(pusher, make_receiver):
    receiver = make_receiver({"mission-1": SECRET})
    with Orchestrator(pusher.url + "/agents/default", pusher.token) as client:
        envelope = pusher.envelope(pusher.request(ASK))
        task = client.send(client.command(envelope))
        config = {
            "configId": "mission-1",
            "url": receiver.url("/aiwg/webhooks/a2a"),
            "secret": SECRET,
            "eventTypes": ["status-update"],
        }
        made = client.http.post(f"/v1/tasks/{task['id']}/pushNotificationConfigs", json=config)
        assert (made.status_code, made.json()["configId"]) == (200, "mission-1")
        assert SECRET not in made.text

        asked = wait_until(
            lambda: (
                next((event for event in receiver.events if event["status"]["state"] == "input-required"), None)
                or _now(client, task)
            ),
            what="the prompt",
        )
        client.send(client.answer(task, prompt_in(asked), "y"), expect=200)
        wait_until(lambda: receiver.events and receiver.events[-1]["status"]["state"] == "completed", what="the end")

    assert all(event["kind"] == "status-update" for event in receiver.events)
    assert set(receiver.told) == {200}
    path, headers, _ = receiver.requests[-1]
    assert path == "/aiwg/webhooks/a2a?configId=mission-1"
    assert headers["content-type"] == "application/json"
    assert receiver.numbers() == sorted(receiver.numbers())


def _now(client: Orchestrator, task: dict[str, Any]) -> dict[str, Any] | None:
    """The prompt can be older than the config: then the task has it."""
    found = client.get(f"/tasks/{task['id']}")
    return found if found["status"]["state"] == "input-required" else None


def test_an_inline_config_is_told_every_event_from_the_first_one_on(pusher, make_receiver):
    receiver = make_receiver()
    receiver.plan = [503]
    config = {
        "url": receiver.url("/hook?tenant=7"),
        "token": "tok",
        "authentication": {"scheme": "Bearer", "credentials": "cred"},
    }
    task = run_with(pusher, config)
    assert pusher.answer(task).status_code == 200
    wait_until(lambda: states_10(receiver.events)[-1:] == ["COMPLETED"], what="the end")

    assert states_10(receiver.events) == ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"]
    numbers = receiver.numbers()
    assert numbers == [1, *range(1, numbers[-1] + 1)], "a failed try is repeated, and nothing is left out"
    path, headers, _ = receiver.requests[-1]
    assert path == "/hook?tenant=7"
    assert headers["content-type"] == "application/a2a+json"
    assert (headers["x-a2a-notification-token"], headers["authorization"]) == ("tok", "Bearer cred")
    assert "x-aiwg-signature" not in headers
    asked = next(event for event in receiver.events if states_10([event]) == ["INPUT_REQUIRED"])
    assert HITL in asked["statusUpdate"]["status"]["message"]["metadata"]


def test_the_envelope_is_kept_from_a_config_that_did_not_activate_it(pusher, make_receiver):
    receiver = make_receiver()
    body = pusher.message(pusher.envelope(pusher.request(ASK)))
    with pusher.client() as client:
        task = client.post("/message:send", json=body).json()["task"]
    with pusher.client(extensions=()) as client:
        made = client.post(f"/tasks/{task['id']}/pushNotificationConfigs", json={"url": receiver.url()})
        assert made.status_code == 200, made.text
    pusher.answer(task)
    wait_until(lambda: states_10(receiver.events)[-1:] == ["COMPLETED"], what="the end")

    assert all(HITL not in body.decode() for _, _, body in receiver.requests)


def test_a_config_of_03_is_told_by_whole_tasks(pusher, make_receiver):
    receiver = make_receiver()
    message = pusher.message(pusher.envelope(pusher.request(ASK)))["message"] | {
        "role": "user",
        "parts": [{"kind": "text", "text": "x"}],
    }
    configuration = {"blocking": True, "pushNotificationConfig": {"url": receiver.url(), "token": "t"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message, "configuration": configuration}}
    with pusher.client(version="0.3") as client:
        task = client.post("/", json=call).json()["result"]
        listed = client.post(
            "/", json={"jsonrpc": "2.0", "id": 2, "method": "tasks/pushNotificationConfig/list", "params": {"id": task["id"]}}
        )
        (config,) = listed.json()["result"]
        assert config["taskId"] == task["id"]
        assert config["pushNotificationConfig"]["url"] == receiver.url()
    wait_until(lambda: receiver.events and receiver.events[-1]["status"]["state"] == "input-required", what="the prompt")
    pusher.answer(pusher.get(task["id"]))
    wait_until(lambda: receiver.events[-1]["status"]["state"] == "completed", what="the end")

    assert all(event["kind"] == "task" and event["id"] == task["id"] for event in receiver.events)
    assert receiver.events[-1]["artifacts"]


def test_a_receiver_that_hangs_or_is_gone_holds_up_nobody_else(pusher, make_receiver):
    hanging, gone, well = make_receiver(hangs=True), make_receiver(), make_receiver()
    gone.close()
    task = run_with(pusher, {"url": hanging.url()})
    with pusher.client() as client:
        for url in (gone.url(), well.url()):
            made = client.post(f"/tasks/{task['id']}/pushNotificationConfigs", json={"url": url})
            assert made.status_code == 200, made.text
    pusher.answer(task)

    wait_until(lambda: states_10(well.events)[-1:] == ["COMPLETED"], timeout_s=5, what="the end, elsewhere")
    assert len(hanging.requests) == 1


def test_what_was_not_sent_when_the_courier_was_killed_is_sent(pusher, make_receiver):
    receiver = make_receiver()
    killed: list[int] = []

    def kill_once() -> None:
        if not killed:
            (courier,) = couriers_of(pusher)
            killed.append(courier.pid)
            courier.kill()

    receiver.on_request = kill_once
    task = run_with(pusher, {"url": receiver.url()})
    pusher.answer(task)
    wait_until(lambda: states_10(receiver.events)[-1:] == ["COMPLETED"], what="the end")

    numbers = receiver.numbers()
    assert killed
    assert numbers[:2] == [1, 1], "what the courier was sending is sent again"
    assert numbers[1:] == list(range(1, numbers[-1] + 1))


def test_what_was_not_sent_when_the_daemon_was_killed_is_sent(make_daemon, make_receiver):
    daemon = make_daemon(extra=ALLOW)
    receiver = make_receiver()
    receiver.plan = [500]
    task = run_with(daemon, {"url": receiver.url()})
    wait_until(lambda: receiver.requests, what="the first try")
    (courier,) = couriers_of(daemon)
    daemon.kill()
    wait_until(lambda: not courier.is_running() or courier.status() == psutil.STATUS_ZOMBIE, what="the end of its courier")
    daemon.start()
    wait_until(lambda: states_10(receiver.events)[-1:] == ["FAILED"], what="the end that the daemon's death was")

    numbers = [number for number, status in zip(receiver.numbers(), receiver.told, strict=True) if status == 200]
    assert sorted(set(numbers)) == list(range(1, numbers[-1] + 1))
    assert numbers == sorted(numbers), "in order, whatever was sent twice"
    assert states_10(receiver.events)[:3] == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
    assert prompt_of(task)


def test_a_courier_of_its_own_connects_to_the_daemon(make_daemon, make_receiver):
    daemon = make_daemon(extra=ALLOW + 'courier = "unit"\n')
    receiver = make_receiver()
    task = run_with(daemon, {"url": receiver.url()})
    assert not couriers_of(daemon)
    argv = [sys.executable, "-m", "sandboxd", "courier", "--config", str(daemon.config)]
    with begun(argv) as courier:
        daemon.answer(task)
        wait_until(lambda: states_10(receiver.events)[-1:] == ["COMPLETED"], what="the end")
        daemon.end()
        assert courier.wait(10) == 1

    assert states_10(receiver.events)[0] == "SUBMITTED"


def couriers_of(daemon: Daemon) -> list[psutil.Process]:
    assert daemon.process is not None
    children = psutil.Process(daemon.process.pid).children()
    return [child for child in children if any("sandboxd.courier" in word for word in child.cmdline())]
