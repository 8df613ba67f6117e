"""Does an orchestrator that was written against the reference implementation round-trip a prompt here as it stands?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon
from tests.support.orchestrator import TERMINAL, Orchestrator, prompt_in, state_in

ASK: list[Any] = ["ask", "Proceed? [y/N] "]
WAYS = [("0.3", "/v1"), ("0.3", ""), ("1.0", "")]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}{way[1]}")
def orchestrator(request: pytest.FixtureRequest, shared: Daemon) -> Iterator[Orchestrator]:
    version, alias = request.param
    with Orchestrator(f"{shared.url}/agents/default", shared.token, version=version, alias=alias) as client:
        yield client


def test_a_prompt_goes_out_and_its_answer_comes_in(shared: Daemon, orchestrator: Orchestrator):
    steps = [ASK, ["print", "went on\n"], ASK, ["exit", 3]]
    task = orchestrator.send(orchestrator.command(shared.envelope(shared.request(steps))))
    asked = 0
    last = {}
    for _, event in orchestrator.subscribe(task["id"]):
        last = event
        if state_in(event) == "input-required":
            asked += 1
            orchestrator.send(orchestrator.answer(task, prompt_in(event), "y"), expect=200)

    assert asked == 2
    assert state_in(last) == "failed"
    if not orchestrator.is_10:
        assert (last["status"]["exit_code"], last["status"]["fail_kind"]) == (3, "application")
        assert last["status"]["summary"]
        assert last["final"] is True


def test_events_are_replayed_from_any_number(shared: Daemon, orchestrator: Orchestrator):
    envelope = shared.envelope(shared.request([["print", "one\n"], ["sleep", 100], ["print", "two\n"]]))
    task = orchestrator.send(orchestrator.command(envelope))
    seen = list(orchestrator.subscribe(task["id"], after=1))

    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    assert state_in(seen[-1][1]) == "completed"
    for after in range(1, len(seen)):
        again = list(orchestrator.subscribe(task["id"], after=after))
        assert [number for number, _ in again] == list(range(after, len(seen) + 1))
        assert again[1:] == seen[after:]


def test_a_stream_dispatches(shared: Daemon, orchestrator: Orchestrator):
    events = list(orchestrator.stream(orchestrator.command(shared.envelope(shared.request([["print", "hi\n"]])))))

    assert state_in(events[0][1]) in ("submitted", "working")
    assert state_in(events[-1][1]) == "completed"
    assert any("artifact" in str(event) for _, event in events)


def test_what_has_ended_is_shown_once_more_in_03(shared: Daemon):
    with Orchestrator(f"{shared.url}/agents/default", shared.token) as orchestrator:
        task = orchestrator.send({"messageId": "m-ended", "parts": [{"text": "echo"}]})
        ((_, event),) = orchestrator.subscribe(task["id"])

    assert (event["kind"], state_in(event)) == ("task", "completed")


def test_cancel_behind_a_slash_ends_the_task(shared: Daemon, orchestrator: Orchestrator):
    task = orchestrator.send(orchestrator.command(shared.envelope(shared.request([ASK]))))

    assert orchestrator.cancel(task["id"])["status"]["state"].lower().endswith("canceled")


def test_paging_goes_through_to_the_end(shared: Daemon):
    with Orchestrator(f"{shared.url}/agents/default", shared.token) as orchestrator:
        sent = [
            orchestrator.send({"messageId": f"m-page-{number}", "contextId": "paged", "parts": [{"text": "x"}]})["id"]
            for number in range(5)
        ]
        seen: list[str] = []
        params = {"limit": 2, "state": "completed", "contextId": "paged"}
        while True:
            page = orchestrator.get("/tasks", **params)
            assert all(task["kind"] == "task" for task in page["tasks"])
            seen += [task["id"] for task in page["tasks"]]
            if "next_cursor" not in page:
                break
            params["cursor"] = page["next_cursor"]

    assert sorted(seen) == sorted(sent)


def test_artifacts_are_listed_and_their_bytes_fetched(shared: Daemon, orchestrator: Orchestrator):
    envelope = shared.envelope(shared.request([["print", "exact\n"]]), input_mode=...)
    task = orchestrator.send(orchestrator.command(envelope))
    for _, event in orchestrator.subscribe(task["id"], after=1):
        assert state_in(event) not in TERMINAL or state_in(event) == "completed"
    listed = orchestrator.http.get(f"/tasks/{task['id']}/artifacts").json()
    name = listed["artifacts"][0]["artifactId"]
    raw = orchestrator.http.get(f"/v1/tasks/{task['id']}/artifacts/{name}")

    assert listed["task_id"] == task["id"]
    assert raw.content == b"exact\n"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("GET", "/v1/tasks/none", None), (404, "task.not_found")),
        (("GET", "/tasks/none/subscribe", None), (404, "task.not_found")),
        (("POST", "/v1/tasks/none/cancel", None), (404, "task.not_found")),
        (("GET", "/v1/tasks?limit=1000", None), (400, "request.invalid_params")),
        (("GET", "/tasks?state=done", None), (400, "request.invalid_params")),
        (("GET", "/tasks?cursor=x", None), (400, "request.invalid_params")),
        (("POST", "/messages:stream", {}), (400, "request.invalid_params")),
        (("GET", "/v1/tasks/none/artifacts/a", None), (404, "task.not_found")),
        (("GET", "/v1/tasks/none/pushNotificationConfigs", None), (404, "task.not_found")),
    ],
)
def test_refusals_are_problems_with_their_codes(shared: Daemon, asked: tuple[str, str, Any], told: tuple[int, str]):
    method, path, body = asked
    with Orchestrator(f"{shared.url}/agents/default", shared.token) as orchestrator:
        refused: httpx.Response = orchestrator.http.request(method, path, json=body)

    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.status_code, refused.json()["code"]) == told
    assert refused.json()["instance_id"] == "default"
