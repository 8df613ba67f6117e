"""When a question is over, does everybody who shows it learn who, what and why?"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.daemon import REPOSITORY, Daemon, prompt_of, state_of, wait_until
from tests.support.tokens import reason_of

NEWS = "urn:sandboxd:prompt-news:v1"
ASK = ["ask", "Proceed? [y/N] "]


def followed(daemon: Daemon, task_id: str) -> list[dict[str, Any]]:
    """The status of every update, from the first event on."""
    with daemon.client(headers={"Last-Event-ID": "1"}) as client:
        lines = client.post(f"/tasks/{task_id}:subscribe").text.splitlines()
    items = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    return [item["statusUpdate"]["status"] for item in items if "statusUpdate" in item]


def news_of(status: dict[str, Any]) -> dict[str, Any] | None:
    return status.get("message", {}).get("metadata", {}).get(NEWS)


def test_an_answered_prompt_says_by_whom_and_with_which_message(shared: Daemon):
    task = shared.run([ASK])
    shared.answer(task, "y", wait=True)

    statuses = followed(shared, task["id"])

    (status,) = [status for status in statuses if news_of(status)]
    news = news_of(status)
    assert news is not None
    record = [message for message in shared.get(task["id"])["history"] if message["role"] == "ROLE_USER"][-1]
    assert status["state"] == "TASK_STATE_WORKING"
    assert news.pop("at") == status["timestamp"]
    assert news == {
        "prompt_id": prompt_of(task)["prompt_id"],
        "closed": "answered",
        "by": "token:cli",
        "message_id": record["messageId"],
        "enter": "CR",
        "summary": "Answered by token:cli.",
    }
    assert status["message"]["messageId"]
    assert status["message"]["parts"] == [{"text": "Answered by token:cli."}]


def test_a_prompt_that_its_program_took_back_says_so(shared: Daemon):
    task = shared.run([["print", "Proceed? [y/N] "], ["read", 800], ["print", "\ngoing on\n"], ["sleep", 800]])
    assert state_of(task) == "INPUT_REQUIRED"

    found = [news for status in followed(shared, task["id"]) if (news := news_of(status))]

    assert [(news["prompt_id"], news["closed"]) for news in found] == [(prompt_of(task)["prompt_id"], "withdrawn")]


def test_a_prompt_whose_task_was_canceled_says_by_whom(shared: Daemon):
    task = shared.run([ASK])
    with shared.client() as client:
        client.post(f"/tasks/{task['id']}:cancel")

    last = followed(shared, task["id"])[-1]

    news = news_of(last)
    assert news is not None
    assert last["state"] == "TASK_STATE_CANCELED"
    assert (news["prompt_id"], news["closed"], news["reason"], news["by"]) == (
        prompt_of(task)["prompt_id"],
        "ended",
        "canceled",
        "token:cli",
    )


def test_a_task_that_ends_without_an_open_prompt_has_no_such_news(shared: Daemon):
    task = shared.run([["print", "done\n"]])

    assert [status for status in followed(shared, task["id"]) if news_of(status)] == []


def test_a_message_to_a_task_whose_prompt_has_expired_is_told_so(make_daemon):
    policy = (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text()
    daemon: Daemon = make_daemon(policy=re.sub(r"(?m)^\[prompts\]$", '[prompts]\ntimeout = "1s"', policy))
    task = daemon.run([ASK])
    more = {**daemon.message()["message"], "taskId": task["id"]}
    with daemon.client() as client:
        open_yet = client.post("/message:send", json={"message": more})
        wait_until(lambda: "no answer any more" in str(daemon.get(task["id"])["status"]), what="the prompt's end")
        expired = client.post("/message:send", json={"message": more})
    assert "the prompt is still open" in open_yet.text
    assert reason_of(expired) == "UNSUPPORTED_OPERATION"
    assert "its prompt has expired" in expired.text
    assert state_of(daemon.get(task["id"])) == "INPUT_REQUIRED"
