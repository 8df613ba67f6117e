"""Killed at the moment at which a client hears of a question, has the daemon that question on record when it starts again?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.faults.rounds_load import events, policy, prepare, send
from tests.support.daemon import Daemon, state_of

ROUNDS = int(os.environ.get("SANDBOXD_QUESTION_KILLS", "5"))


def heard_until_a_question(daemon: Daemon, task_id: str) -> dict[int, str]:
    """The events of that task up to its first question, at which the daemon is killed at once."""
    heard: dict[int, str] = {}
    with daemon.client() as client:
        for number, text in events(client, task_id):
            heard[number] = text
            if "INPUT_REQUIRED" in text:
                daemon.kill()
                return heard
    raise AssertionError(f"the task asked nothing: {heard}")


def test_a_question_that_was_heard_is_on_record_after_a_kill(tmp_path: Path, node: Path):
    daemon = Daemon(tmp_path, str(node), policy("told"))
    prepare(daemon)
    daemon.start()
    try:
        for _ in range(ROUNDS):
            with daemon.client() as client:
                task: dict[str, Any] = send(daemon, client, "ask")
            heard = heard_until_a_question(daemon, task["id"])
            daemon.start()
            with daemon.client() as client:
                found = dict(events(client, task["id"]))
            assert {number: found.get(number) for number in heard} == heard
            assert sorted(found) == list(range(1, len(found) + 1))
            assert state_of(daemon.get(task["id"])) == "FAILED"
    finally:
        daemon.end()
