"""A policy's own schema for answers: what does not fit is refused, and a hostile one delays nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.daemon import Daemon, output_of, prompt_of, state_of

ASK = ["ask", "Proceed? [y/N] "]


def policy(schema: str) -> str:
    return f"""
format = 1
adapter = "sandbox-agent-runner"

[command]
program = "node"
argv = ["node", ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs", "--request", "{{request}}"]
cwd = "/workspace"
env = {{ AIWG_A2A_ADAPTER_MODE = "{{mode}}" }}

[hole.mode]
one-of = ["plan", "assess"]

[hole.request]
path-under = [".aiwg/ops/runs"]

[prompts]
schema = {schema}
"""


def test_an_answer_has_to_fit_the_policys_schema(make_daemon):
    daemon = make_daemon(policy=policy("{ pattern = '^(yes|no)$' }"))
    task = daemon.run([ASK])
    asked = prompt_of(task)["response_schema"]

    refused = daemon.answer(task, "y")
    accepted = daemon.answer(task, "yes", wait=True)

    assert asked["properties"]["text"]["allOf"] == [{"$id": "urn:sandboxd:policy-schema:v1", "pattern": "^(yes|no)$"}]
    assert refused.status_code == 422
    (struct,) = [detail["value"] for detail in refused.json()["error"]["details"] if "value" in detail]
    assert struct["validation_errors"] == [{"path": "/text", "keyword": "pattern", "message": "does not fit `pattern`"}]
    assert state_of(accepted.json()["task"]) == "COMPLETED"
    assert 'answer: "yes"' in output_of(accepted.json()["task"])


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{ "$ref" = "https://elsewhere/x" }', "within the schema"),
        ('{ type = "strng" }', "draft 2020-12"),
        ("{ const = 2026-11-29 }", "is no JSON"),
    ],
)
def test_a_policy_whose_schema_cannot_be_used_keeps_the_daemon_from_starting(make_daemon, schema, why):
    with pytest.raises(AssertionError, match=why):
        make_daemon(policy=policy(schema))


def test_a_hostile_pattern_delays_no_other_request(make_daemon):
    daemon: Daemon = make_daemon(policy=policy("{ pattern = '^(a+)+$' }"))
    task = daemon.run([ASK])
    daemon.answer(task, "!")  # whatever has to be loaded is loaded

    # The machine has other work too. What we do ourselves would be in every round, so the quietest of each kind count.
    rounds = [(worst_wait(daemon, quiet), worst_wait(daemon, lambda: attack(daemon, task))) for _ in range(8)]

    delay_s = min(attacked for _, attacked in rounds) - min(calm for calm, _ in rounds)
    assert delay_s < 0.05, rounds
    assert state_of(daemon.answer(task, "aaa", wait=True).json()["task"]) == "COMPLETED"


def attack(daemon: Daemon, task: dict[str, Any]) -> None:
    refused = daemon.answer(task, "a" * 40 + "!")
    assert refused.status_code == 422
    assert "250 ms" in refused.text


def quiet() -> None:
    """As long as an attack, without one."""
    time.sleep(0.3)


def worst_wait(daemon: Daemon, meanwhile: Callable[[], None]) -> float:
    """How long a request waited for its answer at most, while that went on."""
    waits = []
    with daemon.client() as client, ThreadPoolExecutor(1) as pool:
        client.get("/healthz")
        going_on = pool.submit(meanwhile)
        while not going_on.done():
            before = time.monotonic()
            assert client.get("/healthz").status_code == 200
            waits.append(time.monotonic() - before)
        going_on.result()
    return max(waits)
