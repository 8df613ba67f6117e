"""Real programs under a real daemon: each question is raised over HTTP, answered, and the program goes on.

All of them run at once, a few at a time, for each mostly waits. What the machine lacks is skipped by its name, and pytest's
summary says how many ran. `scripts/setup` brings enough of them for `RAN_LEAST`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from tests.e2e.programs import PROGRAMS, Program
from tests.support.daemon import Daemon, answer_body, outcome_of, output_of, prompt_of, state_of

FACTS = "urn:sandboxd:prompt:v1"
AT_ONCE = 6
RAN_LEAST = 25
PATIENCE_S = 40.0
POLICY = """
format = 1
adapter = "programs"

[command]
program = "bash"
argv = ["bash", "{script}"]
terminal = "text-line"

[command.env]
PATH = "/usr/local/bin:/usr/bin:/bin"
TERM = "xterm-256color"

[hole.mode]
one-of = ["plan"]

[hole.script]
path-under = ["."]

[prompts]
secrets = "relay"
"""
PREPARE = "export HOME=$PWD/{name} LC_ALL=C.UTF-8 HISTFILE= NO_UPDATE_NOTIFIER=1; mkdir {name}; cd {name}\n"


@attrs.frozen
class Talk:
    """One program's task, over HTTP."""

    daemon: Daemon
    client: httpx.Client
    program: Program

    def hold(self) -> None:
        """Ask, answer and see it go on; `AssertionError` says what went otherwise."""
        task = self._send()
        try:
            seen: set[str] = set()
            for question in self.program.asks:
                while not self._answered(task["id"], question, seen):
                    pass  # it was drawn anew meanwhile, and is asked again
            self._until_it_printed(task["id"], self.program.prints, seen)
        finally:
            self.client.post(f"/tasks/{task['id']}:cancel", json={})

    def _send(self) -> dict[str, Any]:
        script = f"{self.program.name}.sh"
        (self.daemon.workspace / script).write_text(PREPARE.format(name=self.program.name) + self.program.script)
        envelope = self.daemon.envelope(script, adapter="programs", command=["bash", script])
        body = self.daemon.message(envelope)
        body["configuration"] = {"returnImmediately": True}
        answer = self.client.post("/message:send", json=body)
        assert answer.status_code == 200, answer.text
        task: dict[str, Any] = answer.json()["task"]
        return task

    def _answered(self, task_id: str, question: tuple[str, str, str], seen: set[str]) -> bool:
        """Whether the next question, which must be this one, took its answer; it may be gone when that arrives."""
        holds, kind, text = question
        task = self._until_asked(task_id, seen)
        prompt, facts = prompt_of(task), task["status"]["message"]["metadata"][FACTS]
        assert holds in prompt["prompt"], (holds, prompt)
        assert facts["kind"] == kind, (kind, facts)
        seen.add(prompt["prompt_id"])
        body = answer_body(task, prompt["prompt_id"], text)
        answer = self.client.post("/message:send", json=body)
        assert answer.status_code in (200, 409), answer.text
        return answer.status_code == 200

    def _until_asked(self, task_id: str, answered: set[str]) -> dict[str, Any]:
        for task in self._looks(task_id, "a question"):
            if state_of(task) == "INPUT_REQUIRED" and prompt_of(task)["prompt_id"] not in answered:
                return task
            assert state_of(task) in ("SUBMITTED", "WORKING", "INPUT_REQUIRED"), f"{output_of(task)!r} {outcome_of(task)}"
        raise AssertionError  # `_looks` ends in an error of its own

    def _until_it_printed(self, task_id: str, text: str, answered: set[str]) -> None:
        for task in self._looks(task_id, f"{text!r}"):
            is_over = state_of(task) in ("COMPLETED", "FAILED")
            has_gone_on = is_over or state_of(task) == "WORKING" or prompt_of(task)["prompt_id"] not in answered
            if has_gone_on and text in output_of(task):
                return
            assert not is_over, output_of(task)

    def _looks(self, task_id: str, what: str) -> Iterator[dict[str, Any]]:
        """The task again and again, until the patience with it ends."""
        ends_at = time.monotonic() + PATIENCE_S
        task: dict[str, Any] = {}
        while time.monotonic() < ends_at:
            task = self.client.get(f"/tasks/{task_id}").raise_for_status().json()
            yield task
            time.sleep(0.05)
        raise AssertionError(f"{what} did not come within {PATIENCE_S} s: {task.get('status')} {output_of(task)!r}")


@pytest.fixture(scope="module")
def talks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, node: Path
) -> Iterator[Mapping[str, Future[None]]]:
    """Every program that is asked for and that this machine has, under one daemon."""
    asked_for = [item.callspec.params.get("program") for item in request.session.items if hasattr(item, "callspec")]
    programs = [program for program in asked_for if isinstance(program, Program) and not program.lacks]
    daemon = Daemon(tmp_path_factory.mktemp("programs"), str(node), policy=POLICY)
    daemon.start()

    def hold(program: Program) -> None:
        with daemon.client() as client:
            Talk(daemon, client, program).hold()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {program.name: pool.submit(hold, program) for program in programs}
        pool.shutdown(cancel_futures=True)
    daemon.end()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_real_program_is_asked_answered_and_goes_on(
    talks: Mapping[str, Future[None]], program: Program, record_property: Any
) -> None:
    if program.lacks:
        pytest.skip(f"NOT TESTED HERE: there is no {program.lacks}")
    talks[program.name].result(timeout=120)
    record_property("live_program", program.name)


@pytest.mark.skipif(not os.environ.get("CI"), reason="NOT TESTED HERE: whether enough programs are here is asked in CI")
def test_enough_programs_are_here() -> None:
    assert len([program for program in PROGRAMS if not program.lacks]) >= RAN_LEAST
