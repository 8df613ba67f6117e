"""Is no answer lost, doubled or misreported, wherever in the middle the controller is killed?

`SANDBOXD_KILL_ROUNDS=200` kills it so often; CI a few times.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from sandboxd.approvals.record import Approval
from sandboxd.chain import verify
from sandboxd.cockpit import rows
from sandboxd.cockpit.ledger import STORE_NAME, open_ledger
from sandboxd.db.connection import connect_reader
from tests.fakes.executor import Executor
from tests.support.daemon import REPOSITORY, wait_until

ROUNDS = int(os.environ.get("SANDBOXD_KILL_ROUNDS", "6"))
AT_ONCE = 3
SCHEMA = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}


class Process:
    """The cockpit's process; what it said so far."""

    def __init__(self, folder: Path, executor: Executor) -> None:
        self.said: list[dict[str, Any]] = []
        command = [sys.executable, "-m", "tests.fakes.cockpit_process", str(folder), executor.url, "jsonrpc"]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        wait_until(lambda: self.said, timeout_s=90, what="the cockpit's start")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.said.append(json.loads(line))

    def answer(self, prompt_id: str, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"prompt_id": prompt_id, "text": text}) + "\n")
        self._process.stdin.flush()

    def acknowledged(self, prompt_id: str) -> bool:
        return any(line.get("prompt_id") == prompt_id for line in self.said)

    def kill(self) -> None:
        self._process.kill()
        _, errors = self._process.communicate()
        self._reader.join()
        assert "Traceback" not in errors, errors[-2000:]


def approval(folder: Path, prompt_id: str) -> Approval | None:
    connection = connect_reader(folder / STORE_NAME)
    try:
        found = rows.find(connection, "lab", prompt_id)
        return found.approval if found else None
    finally:
        connection.close()


class Play:
    """Rounds of questions; what was answered, by prompt id."""

    def __init__(self, folder: Path, executor: Executor) -> None:
        self.folder, self.executor = folder, executor
        self.chance = random.Random(20260101)
        self.answers: dict[str, str] = {}
        self.waiting: set[str] = set()

    def settle(self, process: Process) -> None:
        """Every earlier question comes to its end; who got no reply answers again, and is told where it is decided."""
        for prompt_id in self.waiting:
            process.answer(prompt_id, self.answers[prompt_id])
        wait_until(self._none_waits, timeout_s=60, what="the end of every question")

    def _none_waits(self) -> bool:
        found = {prompt_id: approval(self.folder, prompt_id) for prompt_id in self.waiting}
        self.waiting = {prompt_id for prompt_id, one in found.items() if one is None or one.phase != "closed"}
        return not self.waiting

    def ask(self, process: Process) -> list[str]:
        """Some new questions, answered at once; what goes wrong on the way there."""
        self.executor.manners.loses_replies = self.chance.choice([0, 0, 1])
        self.executor.manners.breaks_before = self.chance.choice([0, 0, 1])
        asked = []
        for _ in range(AT_ONCE):
            prompt_id = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
            self.answers[prompt_id] = f"{len(self.answers)}"
            self.executor.ask(self.executor.begin(), {"prompt_id": prompt_id, "prompt": "Go?", "response_schema": SCHEMA})
            process.answer(prompt_id, self.answers[prompt_id])
            asked.append(prompt_id)
        self.waiting.update(asked)
        return asked

    def wait_for_a_moment(self, process: Process, asked: list[str]) -> None:
        """Somewhere between the first acknowledgement and the last delivery."""
        arrived = len(self.executor.answers) + self.chance.randint(1, AT_ONCE)
        if self.chance.random() < 0.5:
            prompt_id = self.chance.choice(asked)
            wait_until(lambda: process.acknowledged(prompt_id), timeout_s=60, what="an acknowledgement")
        else:
            wait_until(lambda: len(self.executor.answers) >= arrived, timeout_s=60, what="an answer's arrival")
        time.sleep(self.chance.random() * 0.03)  # the moment is meant to be anywhere


@pytest.mark.slow
def test_kill_9_at_any_point_loses_and_doubles_no_answer(tmp_path):
    with Executor(names_accepted=True) as executor:
        play = Play(tmp_path, executor)
        for _ in range(ROUNDS):
            process = Process(tmp_path, executor)
            play.settle(process)
            asked = play.ask(process)
            play.wait_for_a_moment(process, asked)
            process.kill()
            acknowledged = [approval(tmp_path, prompt_id) for prompt_id in asked if process.acknowledged(prompt_id)]
            assert all(one is not None and (one.verdicts or one.phase == "open") for one in acknowledged)
        last = Process(tmp_path, executor)
        play.settle(last)
        last.kill()

    for prompt_id, text in play.answers.items():
        found = approval(tmp_path, prompt_id)
        assert found is not None
        assert (found.status, executor.taken(prompt_id)) == ("responded", {"text": text})
        assert {one["messageId"] for one in executor.answers if text == _text(one)} == {found.accepted}
    with open_ledger(tmp_path) as ledger:
        assert verify(ledger.after(0)).count


def _text(message: dict[str, Any]) -> str:
    return message["metadata"]["hitl_response_for"]["payload"]["text"]
