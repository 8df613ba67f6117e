"""Everything that must not run: malformed envelopes make no task, denied ones make a task that is rejected."""

import json
import os

import pytest

from tests.support.daemon import ADAPTER, HITL, RUNNER, Daemon, outcome_of, state_of

REQUESTS = ".aiwg/ops/runs"


@pytest.fixture(scope="module", autouse=True)
def traps(shared: Daemon):
    """A secret beside the workspace, and every way that a file below it could lead there."""
    runs = shared.workspace / REQUESTS
    (shared.folder / "secret.json").write_text('{"steps": []}')
    (runs / "link.json").symlink_to(shared.folder / "secret.json")
    (runs / "away").symlink_to(shared.folder)
    os.mkfifo(runs / "fifo.json")


def count_tasks(shared: Daemon) -> int:
    with shared.client() as client:
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
def test_a_malformed_envelope_names_its_field_and_makes_no_task(shared: Daemon, change, field):
    before = count_tasks(shared)
    envelope = shared.envelope(shared.request([["print", "ran\n"]]), **change)

    with shared.client() as client:
        rest = client.post("/message:send", json=shared.message(envelope))
        rpc = client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": shared.message(envelope)})

    assert rest.status_code == 400
    fields = [item["field"] for detail in rest.json()["error"]["details"] for item in detail.get("fieldViolations", [])]
    assert any(name.startswith(f"message.metadata.{ADAPTER}.{field}") for name in fields), fields
    assert rpc.json()["error"]["code"] == -32602
    assert count_tasks(shared) == before


def test_every_wrong_field_is_named_at_once(shared: Daemon):
    envelope = {"adapter": 1, "mode": "x", "command": 2, "timeout_seconds": 0, "input_mode": "y", "more": None}

    with shared.client() as client:
        answer = client.post("/message:send", json=shared.message(envelope))

    named = answer.text
    assert all(f"{ADAPTER}.{key}" in named for key in envelope)


@pytest.mark.parametrize("envelope", [None, [], "run", 7, True])
def test_an_envelope_that_is_no_object_is_refused_and_never_echoed(shared: Daemon, envelope):
    before = count_tasks(shared)
    with shared.client() as client:
        answer = client.post("/message:send", json=shared.message(envelope))

    assert answer.status_code == 400
    assert count_tasks(shared) == before


def test_an_envelope_in_the_requests_own_metadata_alone_is_refused(shared: Daemon):
    before = count_tasks(shared)
    body = shared.message()
    body["metadata"] = {ADAPTER: shared.envelope(shared.request([]))}

    with shared.client() as client:
        answer = client.post("/message:send", json=body)

    assert answer.status_code == 400
    assert count_tasks(shared) == before


def test_input_mode_without_the_hitl_extension_names_the_header(shared: Daemon):
    before = count_tasks(shared)
    body = shared.message(shared.envelope(shared.request([])))

    with shared.client(extensions=()) as client:
        answer = client.post("/message:send", json=body)

    assert answer.status_code == 400
    assert "A2A-Extensions" in answer.text
    assert HITL in answer.text
    assert count_tasks(shared) == before


def test_integral_floats_are_integers(shared: Daemon):
    task = shared.run([["print", "ran\n"]], timeout_seconds=30.0)

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
def test_a_denied_command_is_a_rejected_task_with_its_reasons(shared: Daemon, change, field):
    change = json.loads(json.dumps(change).replace('"R"', f'"{shared.request([["print", "ran"]])}"'))

    with shared.client() as client:
        answer = client.post("/message:send", json=shared.message(shared.envelope(shared.request([]), **change)))

    assert answer.status_code == 200, answer.text
    task = answer.json()["task"]
    assert state_of(task) == "REJECTED"
    reasons = outcome_of(task)["reasons"]
    assert any(reason["field"].startswith(field) for reason in reasons), reasons
    assert all(reason["reason"] in task["status"]["message"]["parts"][0]["text"] for reason in reasons)
    assert not task.get("artifacts")


def test_a_mode_that_the_policy_leaves_out_is_rejected(make_daemon, shared: Daemon):
    narrow = shared.policy.read_text().replace('one-of = ["plan", "assess"]', 'one-of = ["plan"]')
    narrow = narrow.split("[[example]]")[0]
    other = make_daemon(policy=narrow)

    task = other.run([["print", "ran\n"]], mode="assess")

    assert state_of(task) == "REJECTED"
    assert [reason["field"] for reason in outcome_of(task)["reasons"]] == ["mode"]


def test_a_runner_behind_a_symlink_is_rejected(shared: Daemon):
    runner = shared.workspace / RUNNER
    moved = shared.folder / "elsewhere.mjs"
    runner.rename(moved)
    runner.symlink_to(moved)

    task = shared.run([["print", "ran\n"]])

    assert state_of(task) == "REJECTED"
    assert "runner" in [reason["field"] for reason in outcome_of(task)["reasons"]]


def test_texts_that_exec_cannot_carry_are_invalid(shared: Daemon):
    before = count_tasks(shared)
    for text in ("a\x00b", "x" * 200_000):
        body = shared.message(shared.envelope(shared.request([])), text=text)
        with shared.client() as client:
            answer = client.post("/message:send", json=body)
        assert answer.status_code == 400, text[:10]
    assert count_tasks(shared) == before
