"""Is a question that its program still waits at asked again, and does its old id take nothing any more?"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandboxd.a2a.extensions import PROMPT_NEWS, REISSUE
from tests.support.daemon import HITL, REPOSITORY, Daemon, output_of, prompt_of, state_of, wait_until
from tests.support.tokens import bearer, make_token

WAIT_S = 30.0
POLICY = (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text()


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory, node: Path):
    """A daemon whose questions stand for a second, and whose commands ask three times at most."""
    assert "[prompts]" in POLICY
    policy = POLICY.replace("[prompts]", '[prompts]\ntimeout = "1s"\nmax = 3')
    daemon = Daemon(tmp_path_factory.mktemp("brief"), str(node), policy=policy)
    daemon.start()
    yield daemon
    daemon.end()


def ask_again(
    daemon: Daemon, task: dict[str, Any], prompt_id: str, *, door: str = "rest", extensions: tuple[str, ...] = (HITL, REISSUE)
) -> httpx.Response:
    with daemon.client(extensions=extensions, version="0.3" if door.endswith("0.3") else "1.0") as client:
        if door.startswith("rest"):
            return client.post(f"/tasks/{task['id']}:reissue", json={"promptId": prompt_id})
        method = "tasks/reissue" if door.endswith("0.3") else "ReissuePrompt"
        params = {"id": task["id"], "promptId": prompt_id}
        return client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def said(text: str) -> str:
    return f'answer: "{text}"'


@pytest.mark.parametrize("door", ["rest", "rpc", "rpc0.3"])
def test_an_open_question_is_asked_again_and_the_old_id_takes_no_answer(shared, door):
    task = shared.run([["ask", "Proceed? [y/N] "]])
    old = prompt_of(task)["prompt_id"]

    asked = ask_again(shared, task, old, door=door)
    assert asked.status_code == 200, asked.text
    again = shared.get(task["id"])
    new = prompt_of(again)["prompt_id"]
    assert new != old
    news = again["status"]["message"]["metadata"][PROMPT_NEWS]
    assert (news["prompt_id"], news["closed"], news["reissued_as"]) == (old, "reissued", new)
    late = shared.answer(task, "late", prompt_id=old)
    assert late.status_code == 409
    assert new in late.text
    assert shared.answer(again, "y").status_code == 200
    done = shared.until(task["id"], "COMPLETED", timeout_s=WAIT_S)
    assert said("y") in output_of(done)
    assert said("late") not in output_of(done)


def test_a_question_whose_time_is_over_is_asked_again_for_the_same_wait(brief):
    task = brief.run([["ask", "Proceed? [y/N] "]])
    old = prompt_of(task)["prompt_id"]
    wait_expired(brief, task)

    asked = ask_again(brief, task, old)
    assert asked.status_code == 200, asked.text
    again = asked.json()
    assert prompt_of(again)["prompt_id"] != old
    answered = brief.answer(again, "y")
    if answered.status_code == 409:  # a busy machine let that second pass too
        again = ask_again(brief, task, prompt_of(again)["prompt_id"]).json()
        answered = brief.answer(again, "y")
    assert answered.status_code == 200, answered.text
    assert said("y") in output_of(brief.until(task["id"], "COMPLETED", timeout_s=WAIT_S))


def wait_expired(daemon: Daemon, task: dict[str, Any]) -> None:
    def closed() -> bool:
        message = daemon.get(task["id"])["status"]["message"]
        return message["metadata"].get(PROMPT_NEWS, {}).get("closed") == "expired"

    wait_until(closed, timeout_s=WAIT_S, what="the end of its time")


def test_it_is_asked_no_more_often_than_the_policy_lets_its_command_ask(brief):
    task = brief.run([["ask", "Proceed? [y/N] "]])
    prompt_id = prompt_of(task)["prompt_id"]
    for _ in range(2):
        prompt_id = prompt_of(ask_again(brief, task, prompt_id).json())["prompt_id"]

    refused = ask_again(brief, task, prompt_id)
    assert refused.status_code == 400, refused.text
    assert "3 questions" in refused.text
    assert state_of(brief.get(task["id"])) == "INPUT_REQUIRED"
    with brief.client() as client:
        client.post(f"/tasks/{task['id']}:cancel", json={})


def test_what_is_not_waited_at_is_not_asked_again(shared):
    task = shared.run([["ask", "First? [y/N] "], ["ask", "Second? [y/N] "]])
    first = prompt_of(task)["prompt_id"]
    shared.answer(task, "y")
    again = shared.until(task["id"], "INPUT_REQUIRED", timeout_s=WAIT_S)

    for prompt_id in (first, str(uuid.uuid4())):
        assert ask_again(shared, task, prompt_id).status_code == 409
    shared.answer(again, "y")
    shared.until(task["id"], "COMPLETED", timeout_s=WAIT_S)
    gone = ask_again(shared, task, prompt_of(again)["prompt_id"])
    assert gone.status_code == 409
    assert "accepted" in gone.text


def test_a_reply_that_was_lost_is_found_again_by_the_old_id(shared):
    task = shared.run([["ask", "Proceed? [y/N] "]])
    old = prompt_of(task)["prompt_id"]
    new = prompt_of(ask_again(shared, task, old).json())["prompt_id"]

    twice = ask_again(shared, task, old)
    assert twice.status_code == 409
    assert new in twice.text
    assert shared.answer(task, "y", prompt_id=new).status_code == 200


def test_it_takes_the_extension_the_scope_and_a_prompt_s_id(shared):
    task = shared.run([["ask", "Proceed? [y/N] "]])
    prompt_id = prompt_of(task)["prompt_id"]

    assert ask_again(shared, task, prompt_id, extensions=(HITL,)).status_code == 400
    assert ask_again(shared, task, "no-uuid").status_code == 400
    headers = {"A2A-Extensions": f"{HITL}, {REISSUE}"}
    with bearer(shared, make_token(shared, "answers-alone", "view", "answer", "cancel"), **headers) as client:
        assert client.post(f"/tasks/{task['id']}:reissue", json={"promptId": prompt_id}).status_code == 403
    with bearer(shared, make_token(shared, "asks-again", "view", "reissue"), **headers) as client:
        assert client.post(f"/tasks/{task['id']}:reissue", json={"promptId": prompt_id}).status_code == 200
        assert client.post(f"/tasks/{task['id']}:cancel", json={}).status_code == 403
    with shared.client() as client:
        client.post(f"/tasks/{task['id']}:cancel", json={})
        card = client.get("/.well-known/agent-card.json").json()
        audit = client.get("/audit").json()
    assert REISSUE in [one["uri"] for one in card["capabilities"]["extensions"]]
    assert {one["outcome"] for one in audit["records"] if one["action"] == "reissue"} >= {"ACCEPTED", "PERMISSION_DENIED"}
