"""Everything that must not run: malformed envelopes make no task, denied ones make a task that is rejected."""

import json
import os

import pytest
from tests.support.daemon import ADAPTER, HITL, RUNNER, Daemon, outcome_of, state_of

REQUESTS = ".aiwg/ops/runs"


def count_tasks(daemon: Daemon) -> int:
    with daemon.client() as client:
        return client.get("/tasks").json()["totalSize"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"extra": 1}, "extra"),
        ({"adapter": 7}, "adapter"),
        ({"adapter": ...}, "adapter"),
        ({"mode": "apply"}, "mode"),
        ({"mode": None}, "mode"),
        ({"input_mode": "raw"}, "input_mode"),
        ({"command": "node x"}, "command"),
        ({"command": []}, "command"),
        ({"command": ["node", 1]}, "command"),
        ({"command": ["node", "a\x00b"]}, "command"),
        ({"working_dir": 3}, "working_dir"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 901}, "timeout_seconds"),
        ({"timeout_seconds": 1.5}, "timeout_seconds"),
        ({"timeout_seconds": "300"}, "timeout_seconds"),
        ({"timeout_seconds": True}, "timeout_seconds"),
        ({"timeout_seconds": -1}, "timeout_seconds"),
    ],
)
def test_a_malformed_envelope_names_its_field_and_makes_no_task(daemon: Daemon, change, field):
    envelope = daemon.envelope(daemon.request([["print", "ran\n"]]), **change)

    with daemon.client() as client:
        rest = client.post("/message:send", json=daemon.message(envelope))
        rpc = client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": daemon.message(envelope)})

    assert rest.status_code == 400
    fields = [item["field"] for detail in rest.json()["error"]["details"] for item in detail.get("fieldViolations", [])]
    assert any(name.startswith(f"message.metadata.{ADAPTER}.{field}") for name in fields), fields
    assert rpc.json()["error"]["code"] == -32602
    assert count_tasks(daemon) == 0


def test_every_wrong_field_is_named_at_once(daemon: Daemon):
    envelope = {"adapter": 1, "mode": "x", "command": 2, "timeout_seconds": 0, "input_mode": "y", "more": None}

    with daemon.client() as client:
        answer = client.post("/message:send", json=daemon.message(envelope))

    named = answer.text
    assert all(f"{ADAPTER}.{key}" in named for key in envelope)


@pytest.mark.parametrize("envelope", [None, [], "run", 7, True])
def test_an_envelope_that_is_no_object_is_refused_and_never_echoed(daemon: Daemon, envelope):
    with daemon.client() as client:
        answer = client.post("/message:send", json=daemon.message(envelope))

    assert answer.status_code == 400
    assert count_tasks(daemon) == 0


def test_an_envelope_in_the_requests_own_metadata_alone_is_refused(daemon: Daemon):
    body = daemon.message()
    body["metadata"] = {ADAPTER: daemon.envelope(daemon.request([]))}

    with daemon.client() as client:
        answer = client.post("/message:send", json=body)

    assert answer.status_code == 400
    assert count_tasks(daemon) == 0


def test_input_mode_without_the_hitl_extension_names_the_header(daemon: Daemon):
    body = daemon.message(daemon.envelope(daemon.request([])))

    with daemon.client(extensions=()) as client:
        answer = client.post("/message:send", json=body)

    assert answer.status_code == 400
    assert "A2A-Extensions" in answer.text
    assert HITL in answer.text
    assert count_tasks(daemon) == 0


def test_integral_floats_are_integers(daemon: Daemon):
    task = daemon.run([["print", "ran\n"]], timeout_seconds=30.0)

    assert state_of(task) == "COMPLETED"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"adapter": "other"}, "adapter"),
        ({"command": ["node", RUNNER]}, "command"),
        ({"command": ["python3", RUNNER, "--request", "R"]}, "command"),
        ({"command": ["node", "evil.mjs", "--request", "R"]}, "command"),
        ({"command": ["node", RUNNER, "--eval", "R"]}, "command"),
        ({"command": ["node", RUNNER, "--request", "R", "--more"]}, "command"),
        ({"command": ["node", RUNNER, "--request", "/etc/passwd"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs/../../../secret.json"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg\\ops\\runs\\x.json"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs/missing.json"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs/"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/other/x.json"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ""]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs/link.json"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs/away/x.json"]}, "request"),
        ({"command": ["node", RUNNER, "--request", ".aiwg/ops/runs/fifo.json"]}, "request"),
        ({"working_dir": "/etc"}, "working_dir"),
        ({"working_dir": "/workspace/.aiwg"}, "working_dir"),
        ({"working_dir": "/workspace/../etc"}, "working_dir"),
    ],
)
def test_a_denied_command_is_a_rejected_task_with_its_reasons(daemon: Daemon, change, field):
    runs = daemon.workspace / REQUESTS
    (daemon.folder / "secret.json").write_text('{"steps": []}')
    (runs / "link.json").symlink_to(daemon.folder / "secret.json")
    (runs / "away").symlink_to(daemon.folder)
    os.mkfifo(runs / "fifo.json")
    change = json.loads(json.dumps(change).replace('"R"', f'"{daemon.request([["print", "ran"]])}"'))

    with daemon.client() as client:
        answer = client.post("/message:send", json=daemon.message(daemon.envelope(daemon.request([]), **change)))

    assert answer.status_code == 200, answer.text
    task = answer.json()["task"]
    assert state_of(task) == "REJECTED"
    reasons = outcome_of(task)["reasons"]
    assert any(reason["field"].startswith(field) for reason in reasons), reasons
    assert all(reason["reason"] in task["status"]["message"]["parts"][0]["text"] for reason in reasons)
    assert not task.get("artifacts")


def test_a_mode_that_the_policy_leaves_out_is_rejected(make_daemon, daemon: Daemon):
    narrow = daemon.policy.read_text().replace('one-of = ["plan", "assess"]', 'one-of = ["plan"]')
    narrow = narrow.split("[[example]]")[0]
    other = make_daemon(policy=narrow)

    task = other.run([["print", "ran\n"]], mode="assess")

    assert state_of(task) == "REJECTED"
    assert [reason["field"] for reason in outcome_of(task)["reasons"]] == ["mode"]


def test_a_runner_behind_a_symlink_is_rejected(daemon: Daemon):
    runner = daemon.workspace / RUNNER
    moved = daemon.folder / "elsewhere.mjs"
    runner.rename(moved)
    runner.symlink_to(moved)

    task = daemon.run([["print", "ran\n"]])

    assert state_of(task) == "REJECTED"
    assert "runner" in [reason["field"] for reason in outcome_of(task)["reasons"]]


def test_texts_that_exec_cannot_carry_are_invalid(daemon: Daemon):
    for text in ("a\x00b", "x" * 200_000):
        body = daemon.message(daemon.envelope(daemon.request([])), text=text)
        with daemon.client() as client:
            answer = client.post("/message:send", json=body)
        assert answer.status_code == 400, text[:10]
    assert count_tasks(daemon) == 0
