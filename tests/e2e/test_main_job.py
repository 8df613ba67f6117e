"""The main job, from outside: a command runs, asks, is answered, and completes."""

import json
import os
from typing import Any

import pytest

from tests.support.daemon import ADAPTER, HITL, RUNNER, Daemon, outcome_of, output_of, prompt_of, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]


def test_a_command_asks_is_answered_and_completes(shared: Daemon):
    task = shared.run([["print", "planning\n"], ASK, ["print", "went on\n"]])
    assert state_of(task) == "INPUT_REQUIRED"
    assert prompt_of(task)["prompt"] == "Proceed? [y/N]"

    answered = shared.answer(task, "y", wait=True)

    assert answered.status_code == 200, answer_text(answered)
    done = answered.json()["task"]
    assert state_of(done) == "COMPLETED"
    assert outcome_of(done)["exit_code"] == 0
    assert 'answer: "y"' in output_of(done)
    assert "went on" in output_of(done)


def answer_text(answer) -> str:
    return f"{answer.status_code} {answer.text}"


def test_two_questions_have_two_ids_and_two_answers(shared: Daemon):
    first = shared.run([ASK, ["ask", "Really? [y/N] "]])
    shared.answer(first, "y")

    def asked_again():
        task = shared.get(first["id"])
        return task if state_of(task) == "INPUT_REQUIRED" and prompt_of(task)["prompt"] == "Really? [y/N]" else None

    second = wait_until(asked_again)

    assert prompt_of(second)["prompt_id"] != prompt_of(first)["prompt_id"]
    assert shared.answer(second, prompt_id=prompt_of(first)["prompt_id"]).status_code == 409
    answered = shared.answer(second, "n")
    assert answered.status_code == 200
    said = [message["messageId"] for message in answered.json()["task"]["history"]]
    assert len(said) == 5  # the command, two questions and their answers: as whole as it would be read from the record
    assert [message["messageId"] for message in shared.get(first["id"])["history"]] == said
    assert 'answer: "n"' in output_of(shared.until(first["id"], "COMPLETED"))


def test_the_same_question_asked_again_is_a_new_prompt(shared: Daemon):
    first = shared.run([ASK, ASK])
    shared.answer(first, "y")

    def asked_again():
        task = shared.get(first["id"])
        return task if state_of(task) == "INPUT_REQUIRED" and prompt_of(task) != prompt_of(first) else None

    second = wait_until(asked_again)
    assert prompt_of(second)["prompt"] == prompt_of(first)["prompt"]
    assert shared.answer(second, "y", wait=True).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("steps", "state", "expected"),
    [
        ([["exit", 0]], "COMPLETED", {"reason": "exit", "exit_code": 0}),
        ([["exit", 3]], "FAILED", {"reason": "exit", "exit_code": 3, "fail_kind": "application"}),
        ([["signal", "SIGKILL"]], "FAILED", {"reason": "signal", "signal": "SIGKILL", "fail_kind": "infrastructure"}),
        ([["hang"]], "FAILED", {"reason": "timeout", "fail_kind": "infrastructure"}),
    ],
)
@pytest.mark.parametrize("input_mode", ["text-line", ...])
def test_the_end_is_told_truthfully(shared: Daemon, steps, state, expected, input_mode):
    task = shared.run(steps, timeout_seconds=2, input_mode=input_mode)

    assert state_of(task) == state
    assert {key: outcome_of(task).get(key) for key in expected} == expected


def test_without_input_mode_pipes_are_apart_exact_and_never_a_question(shared: Daemon):
    steps: list[list[Any]] = [
        ["print", "out\n"],
        ["error", "err\n"],
        ["bytes", "ff00fe"],
        ["print", "Proceed? [y/N] "],
        ["sleep", 600],
    ]

    task = shared.run(steps, input_mode=...)

    assert state_of(task) == "COMPLETED"
    with shared.client() as client:
        out = client.get(f"/tasks/{task['id']}/artifacts/stdout")
        err = client.get(f"/tasks/{task['id']}/artifacts/stderr")
        part = client.get(f"/tasks/{task['id']}/artifacts/stdout", headers={"Range": "bytes=4-6"})
    assert out.content == b"out\n\xff\x00\xfeProceed? [y/N] "
    assert err.content == b"err\n"
    assert (part.status_code, part.content) == (206, b"\xff\x00\xfe")
    assert out.headers["content-type"] == "application/octet-stream"


def test_without_input_mode_stdin_is_at_its_end(shared: Daemon):
    task = shared.run([ASK], input_mode=...)

    assert state_of(task) == "COMPLETED"
    assert "answer: null" in output_of(task, "stdout")


def test_the_environment_is_built_from_nothing(shared: Daemon):
    os.environ["SANDBOXD_TEST_SECRET"] = "not for children"

    task = shared.run([["environment"]], input_mode=...)

    env = json.loads(output_of(task, "stdout"))
    assert "SANDBOXD_TEST_SECRET" not in env
    assert env["AIWG_A2A_MESSAGE"] == "Run it."
    assert env["AIWG_A2A_TASK_ID"] == env["AIWG_MISSION_ID"] == task["id"]
    assert env["AIWG_A2A_INSTANCE_ID"] == "default"
    assert (env["AIWG_A2A_ADAPTER"], env["AIWG_A2A_ADAPTER_MODE"]) == ("sandbox-agent-runner", "plan")


def test_no_output_is_lost_at_exit(shared: Daemon):
    for input_mode in ("text-line", ...):
        for _ in range(3):
            task = shared.run([["flood", 300_000], ["print", "the end\n"]], input_mode=input_mode)
            assert output_of(task, "terminal" if input_mode == "text-line" else "stdout").rstrip().endswith("the end")


def test_output_past_the_cap_keeps_head_and_tail_and_says_so(make_daemon, shared: Daemon):
    small = make_daemon(policy=shared.policy.read_text().replace('"16MiB"', '"64KiB"'))
    task = small.run([["print", "the head\n"], ["flood", 500_000], ["print", "the tail\n"]], input_mode=...)

    (artifact,) = [artifact for artifact in task["artifacts"] if artifact["artifactId"] == "stdout"]
    head, tail = (part["text"] for part in artifact["parts"])
    assert head.startswith("the head\n")
    assert tail.endswith("the tail\n")
    cut = artifact["metadata"]["urn:sandboxd:cut:v1"]
    assert cut["at"] == len(head)
    assert len(head) + cut["bytes"] + len(tail) == 500_018


def test_a_message_without_an_envelope_is_echoed_and_runs_nothing(shared: Daemon):
    with shared.client(extensions=()) as client:
        task = client.post("/message:send", json=shared.message(text="hello")).json()["task"]

    assert state_of(task) == "COMPLETED"
    assert [artifact["artifactId"] for artifact in task["artifacts"]] == ["echo"]
    assert output_of(task, "echo") == "hello"
    assert outcome_of(task)["reason"] == "echo"


def test_the_envelope_is_dispatched_whether_its_extension_is_active_or_not(shared: Daemon):
    body = shared.message(shared.envelope(shared.request([["print", "ran\n"]]), input_mode=...))
    for extensions in ((), (ADAPTER,)):
        with shared.client(extensions=extensions) as client:
            answer = client.post("/message:send", json=body)
        assert output_of(answer.json()["task"], "stdout") == "ran\n"
        assert answer.headers.get("a2a-extensions", "") == ", ".join(extensions)


def test_views_hide_the_envelope_from_requests_that_did_not_activate(shared: Daemon):
    task = shared.run([ASK])

    with shared.client(extensions=()) as client:
        hidden = client.get(f"/tasks/{task['id']}").json()

    assert HITL not in json.dumps(hidden)
    assert hidden["status"]["message"]["parts"][0]["text"] == "Proceed? [y/N]"
    assert hidden["status"]["message"]["parts"][1]["data"]["questionId"] == prompt_of(task)["prompt_id"]


def test_json_rpc_does_the_same_work(shared: Daemon):
    request = shared.request([ASK, ["print", "went on\n"]])
    with shared.client() as client:
        asked = rpc(client, "SendMessage", shared.message(shared.envelope(request)))["task"]
        message = {
            "messageId": "answer-1",
            "role": "ROLE_USER",
            "taskId": asked["id"],
            "parts": [{"data": {"text": "y"}}],
            "metadata": {"hitl_response_for": {"prompt_id": prompt_of(asked)["prompt_id"], "payload": {"text": "y"}}},
        }
        done = rpc(client, "SendMessage", {"message": message})["task"]
        listed = rpc(client, "ListTasks", {"pageSize": 5})

    assert state_of(done) == "COMPLETED"
    assert listed["tasks"][0]["id"] == done["id"]
    assert listed["totalSize"] >= 1


def rpc(client, method: str, params: object):
    answer = client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert answer.status_code == 200
    body = answer.json()
    assert "error" not in body, body
    return body["result"]


def test_the_argv_of_the_caller_is_thrown_away(shared: Daemon):
    """The program sees what the policy says, by the path that the config names."""
    task = shared.run([["cwd"]], input_mode=...)

    assert output_of(task, "stdout").strip() == str(shared.workspace)
    assert RUNNER in (shared.workspace / RUNNER).as_posix()
