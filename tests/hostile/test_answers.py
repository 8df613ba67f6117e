"""Answers that must not reach the program, and races for the one that may."""

import json
import os
import signal
import socket
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.daemon import RUNNER, Daemon, outcome_of, output_of, processes_with, prompt_of, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]
CANONICAL_POLICY = """
format = 1
adapter = "sandbox-agent-runner"

[command]
program = "bash"
argv = ["bash", "{request}"]
cwd = "/workspace"
env = { AIWG_A2A_ADAPTER_MODE = "{mode}" }

[hole.mode]
one-of = ["plan", "assess"]

[hole.request]
path-under = [".aiwg/ops/runs"]
"""


@pytest.mark.parametrize("text", ["y\n", "y\r", "\x1b[A", "a\x00b", "\x7f", "\x03", "\x85", "x" * 4097, "é" * 2049, "\ud800"])
def test_an_answer_that_a_line_cannot_hold_is_422_and_the_prompt_stays_open(shared: Daemon, text):
    task = shared.run([ASK])

    refused = answer_json(shared, task, text)

    assert refused.status_code in (400, 422), refused.text
    if "\ud800" not in text:
        assert refused.status_code == 422
    assert shared.answer(task, "y", wait=True).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def answer_json(shared: Daemon, task, text: str):
    payload = {"text": text}
    message = {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "taskId": task["id"],
        "parts": [{"text": "answer"}],
        "metadata": {"hitl_response_for": {"prompt_id": prompt_of(task)["prompt_id"], "payload": payload}},
    }
    with shared.client(headers={"Content-Type": "application/json"}) as client:
        return client.post("/message:send", content=json.dumps({"message": message}).encode())


def test_4096_bytes_are_refused_in_canonical_mode_and_4095_arrive_whole(make_daemon, tmp_path):
    daemon = make_daemon(policy=CANONICAL_POLICY, extra="")
    script = daemon.workspace / ".aiwg/ops/runs/ask.sh"
    script.write_text('read -r -p "Proceed? [y/N] " answer; echo "got ${#answer}"\n')
    envelope = daemon.envelope("", command=["bash", ".aiwg/ops/runs/ask.sh"])
    with daemon.client() as client:
        sent = client.post("/message:send", json=daemon.message(envelope)).json()["task"]
    assert state_of(sent) == "INPUT_REQUIRED", sent

    too_long = daemon.answer(sent, "x" * 4096)
    fits = daemon.answer(sent, "x" * 4095, wait=True)

    assert too_long.status_code == 422
    assert "4095" in too_long.text
    assert "got 4095" in output_of(fits.json()["task"])


@pytest.mark.parametrize("round_", range(5))
def test_two_answers_at_once_from_two_connections_exactly_one_is_accepted(shared: Daemon, round_):
    task = shared.run([ASK, ["ask", "And then? [y/N] "]])
    gate = threading.Barrier(8)

    def answer(text: str):
        gate.wait()
        return shared.answer(task, text)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(answer, "abcdefgh"))

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    (winner,) = [index for index, answer in enumerate(answers) if answer.status_code == 200]
    accepted = {item for answer in answers if answer.status_code == 409 for item in message_ids(answer)}
    assert len(accepted) == 1
    seen = wait_until(lambda: found if "answer: " in (found := output_of(shared.get(task["id"]))) else None)
    assert f'answer: "{"abcdefgh"[winner]}"' in seen
    assert seen.count("answer: ") == 1


def message_ids(answer):
    for detail in answer.json()["error"]["details"]:
        yield from (value for key, value in detail.get("metadata", {}).items() if key == "acceptedMessageId")


def test_a_client_that_drops_in_the_middle_of_its_answer_has_answered_or_not(shared: Daemon):
    """Whole body sent, then gone at once: the answer counts, once. Half a body: nothing happened."""
    task = shared.run([ASK])
    payload = {"text": "y"}
    body = json.dumps(
        {
            "message": {
                "messageId": "dropped",
                "role": "ROLE_USER",
                "taskId": task["id"],
                "parts": [{"data": payload}],
                "metadata": {"hitl_response_for": {"prompt_id": prompt_of(task)["prompt_id"], "payload": payload}},
            }
        }
    ).encode()
    head = (
        f"POST /message:send HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {shared.token}\r\nA2A-Version: 1.0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    port = int(shared.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(head + body[:-10])
    assert state_of(shared.get(task["id"])) == "INPUT_REQUIRED"

    with socket.create_connection(("127.0.0.1", port)) as whole:
        whole.sendall(head + body)

    def settled():
        current = shared.get(task["id"])
        return current if state_of(current) in ("COMPLETED", "INPUT_REQUIRED") else None

    current = wait_until(settled)
    if state_of(current) == "INPUT_REQUIRED":
        assert shared.answer(task, "y").status_code in (200, 409)
    done = shared.until(task["id"], "COMPLETED")
    assert output_of(done).count("answer: ") == 1


def test_a_child_that_dies_between_prompt_and_answer_gets_nothing(shared: Daemon):
    task = shared.run([["pid"], ASK])
    pid = int(output_of(task).split("pid ")[1].split()[0])
    os.kill(pid, signal.SIGKILL)

    refused = shared.answer(task, "y")

    assert refused.status_code == 409
    done = shared.until(task["id"], "FAILED")
    assert outcome_of(done)["reason"] == "signal"


def test_a_message_without_the_key_is_never_typed(shared: Daemon):
    task = shared.run([ASK])
    message = {"messageId": "m", "role": "ROLE_USER", "taskId": task["id"], "parts": [{"text": "y"}]}

    with shared.client() as client:
        answer = client.post("/message:send", json={"message": message})

    assert answer.status_code == 400
    assert "message.metadata.hitl_response_for" in answer.text
    assert state_of(shared.get(task["id"])) == "INPUT_REQUIRED"
    assert shared.answer(task, "y").status_code == 200


def test_an_answer_that_carries_a_load_is_refused_and_the_prompt_stays_open(shared: Daemon):
    task = shared.run([ASK])
    payload = {"text": "y"}
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "taskId": task["id"],
        "parts": [{"text": "x" * 70_000}],
        "metadata": {"hitl_response_for": {"prompt_id": prompt_of(task)["prompt_id"], "payload": payload}},
    }
    with shared.client() as client:
        answer = client.post("/message:send", json={"message": message})

    assert answer.status_code == 400
    assert "65536" in answer.text
    assert shared.answer(task, "y").status_code == 200


def test_everything_foreign_stale_or_unknown_is_409(shared: Daemon):
    mine, other = shared.run([ASK]), shared.run([ASK])
    unknown_id = str(uuid.uuid4())

    assert shared.answer(mine, prompt_id=unknown_id).status_code == 409
    assert shared.answer(mine, prompt_id=prompt_of(other)["prompt_id"]).status_code == 409
    assert shared.answer({**mine, "contextId": other["contextId"]}, prompt_id=prompt_of(mine)["prompt_id"]).status_code == 409
    assert shared.answer({**mine, "id": unknown_id}).status_code == 409
    assert state_of(shared.get(mine["id"])) == "INPUT_REQUIRED"


@pytest.mark.parametrize("value", [None, [], {}, {"prompt_id": "x", "payload": {}}, {"prompt_id": 1, "payload": []}])
def test_a_malformed_answer_names_its_field(shared: Daemon, value):
    task = shared.run([ASK])
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "taskId": task["id"],
        "parts": [{"text": "y"}],
        "metadata": {"hitl_response_for": value},
    }
    with shared.client() as client:
        answer = client.post("/message:send", json={"message": message})

    assert answer.status_code == 400
    assert "message.metadata.hitl_response_for" in answer.text
    assert state_of(shared.get(task["id"])) == "INPUT_REQUIRED"


def test_cancel_while_waiting_ends_the_tree_for_good(shared: Daemon):
    task = shared.run([["shell", "trap '' TERM HUP INT; sleep 60"], ASK])

    with shared.client() as client:
        canceled = client.post(f"/tasks/{task['id']}:cancel").json()
        again = client.post(f"/tasks/{task['id']}:cancel")

    assert state_of(canceled) == "CANCELED"
    assert again.status_code == 400
    assert shared.answer(task, "y").status_code == 409
    assert processes_with(task["id"]) == []
    assert state_of(shared.get(task["id"])) == "CANCELED"


def test_a_question_that_the_program_left_behind_is_withdrawn(shared: Daemon):
    task = shared.run([["print", "Proceed? [y/N] "], ["read", 900], ["print", "\nwent on without you\n"], ["hang"]])
    assert state_of(task) == "INPUT_REQUIRED"

    working = shared.until(task["id"], "WORKING")

    assert working["status"]["message"]["metadata"]["urn:sandboxd:prompt-news:v1"]["closed"] == "withdrawn"
    assert shared.answer(task, "y").status_code == 409


@pytest.mark.parametrize("timeout_s", [1, 60])
def test_what_a_program_asks_while_it_is_being_ended_is_no_prompt(make_daemon, timeout_s):
    daemon = make_daemon()
    runner = daemon.workspace / RUNNER
    asks = 'process.on("SIGINT", () => process.stdout.write("\\nReally quit? [y/N] "));'
    runner.write_text(f"{asks}\n{runner.read_text()}")
    task = daemon.run([ASK, ["hang"]], timeout_seconds=timeout_s)

    with daemon.client(headers={"Last-Event-ID": "1"}) as client:
        if timeout_s > 1:
            client.post(f"/tasks/{task['id']}:cancel")
        daemon.until(task["id"], "FAILED", "CANCELED")
        lines = client.get(f"/tasks/{task['id']}:subscribe").text.splitlines()

    news = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    states = [item["statusUpdate"]["status"]["state"] for item in news if "statusUpdate" in item]
    assert states.count("TASK_STATE_INPUT_REQUIRED") == 1
    assert states.index("TASK_STATE_INPUT_REQUIRED") == len(states) - 2, states
    assert "Really quit?" in output_of(daemon.get(task["id"]))
