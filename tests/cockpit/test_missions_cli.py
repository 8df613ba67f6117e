"""Can a person start, follow and end missions from the command line, on a real daemon through a real cockpit?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import RUNNER, Daemon, wait_until

RULES = """
format = 1
[usual]
answers = "public"
"""
ANSWERS = """
format = 1
[[answer]]
question = 'Known\\? \\[y/N\\]'
answer = { text = "y" }
fits = ["Known? [y/N]"]
"""


@pytest.fixture(scope="module")
def cockpit(tmp_path_factory: pytest.TempPathFactory, shared: Daemon) -> Iterator[Cockpit]:
    hosts = {"here": (shared.url, shared.token)}
    made = Cockpit(tmp_path_factory.mktemp("cockpit"), hosts, rules=RULES)
    made.start()
    yield made
    made.end()


def start(cockpit: Cockpit, daemon: Daemon, steps: list[list[Any]], *more: str, check: int = 0) -> dict[str, Any]:
    target = ["--cockpit", cockpit.url, "--token-file", str(cockpit.folder / "alice.token")]
    command = ["node", RUNNER, "--request", daemon.request(steps)]
    words = ["missions", "start", "here", "--adapter", "sandbox-agent-runner", "--mode", "plan", "--json", *target, *more]
    done = cockpit.cli(*words, "--", *command, person=None)
    assert done.returncode == check, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def shown(cockpit: Cockpit, mission: dict[str, Any], state: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        now: dict[str, Any] = json.loads(cockpit.cli("missions", "show", mission["mission_id"], "--json").stdout)
        return now if now["state"] == state else None

    reached: dict[str, Any] = wait_until(found, timeout_s=WAIT_S, what=f"the mission's state {state}")
    return reached


def test_a_mission_is_started_answered_and_its_output_read(cockpit, shared):
    (cockpit.folder / "answers.toml").write_text(ANSWERS)
    steps = [["ask", "Known? [y/N] "], ["ask", "Proceed? [y/N] "]]
    links = ("--flow", "nightly", "--issue", "org/repo#12", "--trace", "t-1")
    mission = start(cockpit, shared, steps, "--answers", str(cockpit.folder / "answers.toml"), *links)
    said = {"mission": mission["mission_id"], "flow": "nightly", "issue": "org/repo#12", "trace": "t-1", "sandbox": "here"}
    assert mission["links"] == said
    name = mission["mission_id"][:8]

    def asks() -> str | None:
        listed = json.loads(cockpit.cli("prompts", "--json").stdout)["prompts"]
        return next((one["prompt_id"] for one in listed if one["question"] == "Proceed? [y/N]"), None)

    prompt_id = wait_until(asks, timeout_s=WAIT_S, what="the question that nobody has answered beforehand")
    waiting = shown(cockpit, mission, "awaiting-approval")
    early = cockpit.cli("missions", "show", name, "--output")
    assert (early.returncode, "no result" in early.stderr) == (5, True)
    assert waiting["way_out"]
    assert cockpit.cli("answer", prompt_id, "--text", "y", person="bob").returncode == 0
    shown(cockpit, mission, "completed")
    assert cockpit.cli("missions", "show", name, "--output").stdout.count('answer: "y"') == 2
    row = next(line for line in cockpit.cli("missions").stdout.splitlines() if mission["mission_id"] in line)
    assert row.split("\t")[2] == "completed"


def test_waiting_says_by_its_code_how_it_ended(cockpit, shared):
    assert start(cockpit, shared, [["print", "hello\n"]], "--wait", "60s")["state"] == "completed"
    assert start(cockpit, shared, [["exit", 3]], "--wait", "60s", check=1)["state"] == "failed"
    pending = start(cockpit, shared, [["ask", "Proceed? [y/N] "]], "--wait", "1s", check=8)

    cancelled = cockpit.cli("missions", "cancel", str(pending["number"]), "--reason", "not today")
    assert cancelled.returncode == 0, cancelled.stderr
    assert "not today" in shown(cockpit, pending, "cancelled")["reason"]
    assert cockpit.cli("missions", "cancel", str(pending["number"])).returncode == 5
    assert cockpit.cli("missions", "resume", str(pending["number"])).returncode == 5


def test_what_cannot_be_started_says_why(cockpit, shared):
    wrong = cockpit.cli("missions", "start", "nowhere", "node", "--adapter", "a", "--mode", "plan")
    assert wrong.returncode == 1
    assert "no such host" in wrong.stderr
    assert cockpit.cli("missions", "show", "no-such").returncode == 3
    assert cockpit.cli("missions", "list", person=None).returncode == 2
