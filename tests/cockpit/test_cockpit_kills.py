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
from sandboxd.cockpit import rows
from sandboxd.cockpit.audit import verify
from sandboxd.cockpit.ledger import STORE_NAME, open_ledger
from sandboxd.db.connection import connect_reader
from tests.fakes.executor import Executor
from tests.support.daemon import REPOSITORY, wait_until

ROUNDS = int(os.environ.get("SANDBOXD_KILL_ROUNDS", "6"))
AT_ONCE = 3
SPAN_S = 0.6  # a round's questions are found, answered and delivered within about this time


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
        wait_until(lambda: self.said, timeout_s=30, what="the cockpit's start")

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
        assert "Traceback" not in errors, errors


def approval(folder: Path, prompt_id: str) -> Approval | None:
    connection = connect_reader(folder / STORE_NAME)
    try:
        found = rows.find(connection, "lab", prompt_id)
        return found.approval if found else None
    finally:
        connection.close()


@pytest.mark.slow
def test_kill_9_at_any_point_loses_and_doubles_no_answer(tmp_path):
    chance, answers = random.Random(20260101), dict[str, str]()
    schema = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    with Executor(names_accepted=True) as executor:
        for number in range(ROUNDS):
            process = Process(tmp_path, executor)
            executor.manners.loses_replies = chance.choice([0, 0, 1])
            executor.manners.breaks_before = chance.choice([0, 0, 1])
            for index in range(AT_ONCE):
                prompt_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
                answers[prompt_id] = f"{number}-{index}"
                executor.ask(executor.begin(), {"prompt_id": prompt_id, "prompt": "Go?", "response_schema": schema})
                process.answer(prompt_id, answers[prompt_id])
            time.sleep(chance.random() * SPAN_S)  # where it is killed is meant to be anywhere
            process.kill()
            assert all(approval(tmp_path, prompt_id) for prompt_id in answers if process.acknowledged(prompt_id))
        last = Process(tmp_path, executor)
        for prompt_id, text in answers.items():
            last.answer(prompt_id, text)  # who got no reply answers again; who got one is told that it is decided

        def open_ones() -> list[Any]:
            found = [approval(tmp_path, prompt_id) for prompt_id in answers]
            return [one for one in found if one is None or one.phase != "closed"]

        try:
            wait_until(lambda: not open_ones(), timeout_s=60 + ROUNDS, what="every question's end")
        except AssertionError:
            raise AssertionError(f"not every question has an end: {open_ones()}") from None
        finally:
            last.kill()
        for prompt_id, text in answers.items():
            found = approval(tmp_path, prompt_id)
            assert found is not None
            assert (found.status, executor.taken(prompt_id)) == ("responded", {"text": text})
            assert {one["messageId"] for one in executor.answers if text == _text(one)} == {found.accepted}
    with open_ledger(tmp_path) as ledger:
        assert verify(ledger.after(0)) is not None


def _text(message: dict[str, Any]) -> str:
    return message["metadata"]["hitl_response_for"]["payload"]["text"]
