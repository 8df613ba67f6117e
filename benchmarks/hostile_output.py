"""Does a program that floods its terminal delay the questions of another task?

A real daemon runs two tasks: one floods, the other prints the time in each of its questions. What is measured lies between that
time and the time stamp of the question's event, without the settle time that the event names: the daemon's own delay, to the
millisecond, and nothing of the way to a client. Each flood goes on as fast as the daemon takes it.

    python -m benchmarks.hostile_output
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from tests.support.daemon import HITL, Daemon, answer_body

GOAL_MS: Final = 50.0  # no task is held up longer by another's output
QUIET_GOAL_MS: Final = 2.0  # median, where nothing floods
QUESTIONS: Final = 20
_FACTS: Final = "urn:sandboxd:prompt:v1"
_POLICY: Final = """
format = 1
adapter = "script"

[command]
program = "python"
argv = ["python", "{script}"]
terminal = "text-line"

[hole.mode]
one-of = ["plan"]

[hole.script]
path-under = ["."]

[limits]
output = "1MiB"

[prompts]
max = 1000
"""
_ASKER: Final = """
import time
while True:
    print(f"At {time.time():.6f}: go on? [y/N] ", end="", flush=True)
    input()
"""
_FLOOD: Final = """
import os, time
data = {data}
ends_at = time.monotonic() + 600
while time.monotonic() < ends_at:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
    time.sleep({pause})
"""
FLOODS: Final[Mapping[str, str]] = {
    "nothing": "",
    "a line of 10 MB": _FLOOD.format(data="b'x' * 10_000_000", pause=0.01),
    "a title that never ends": _FLOOD.format(data="b'\\x1b]0;' + b'a' * 1_000_000", pause=0),
    "100,000 [y/N] a second": _FLOOD.format(data="b'Go on? [y/N] ' * 1000", pause=0.01),
    "a redrawn line": _FLOOD.format(data="b'\\r\\x1b[K\\x1b[?25lGo on? [y/N] ' * 1000", pause=0),
    "short lines": _FLOOD.format(data="b'a\\n' * 10_000", pause=0),
}


@attrs.frozen
class Delays:
    """How late the questions of the other task were raised, in milliseconds beyond their settle time."""

    ms: tuple[float, ...]

    @property
    def median(self) -> float:
        """The usual one."""
        return statistics.median(self.ms)

    @property
    def most(self) -> float:
        """The worst one."""
        return max(self.ms)


def measure(folder: Path, flood: str, questions: int = QUESTIONS) -> Delays:
    """Run a daemon in that folder, the flood (source text; empty: none) in one task and the questions in another."""
    daemon = Daemon(folder, sys.executable, policy=_POLICY)  # no Node is needed; the policy names Python alone
    daemon.config.write_text(daemon.config.read_text().replace("[programs]\n", '[programs]\npython = "/usr/bin/python3"\n'))
    daemon.start()
    try:
        with daemon.client() as client:
            if flood:
                _send(daemon, client, "flood.py", flood)
            asker = _send(daemon, client, "asker.py", _ASKER)
            return Delays(tuple(_delays(client, asker, questions)))
    finally:
        daemon.kill()


def _send(daemon: Daemon, client: httpx.Client, name: str, source: str) -> dict[str, Any]:
    (daemon.workspace / name).write_text(source)
    envelope = daemon.envelope(name, adapter="script", command=["python", name], timeout_seconds=120)
    body = {**daemon.message(envelope), "configuration": {"returnImmediately": True}}
    task: dict[str, Any] = client.post("/message:send", json=body).raise_for_status().json()["task"]
    return task


def _delays(client: httpx.Client, asker: Mapping[str, Any], questions: int) -> Iterator[float]:
    seen = ""
    for _ in range(questions):
        status = _question(client, asker["id"], seen)
        metadata = status["message"]["metadata"]
        prompt, settle_s = metadata[HITL], metadata[_FACTS]["evidence"]["settle_s"]
        seen = prompt["prompt_id"]
        raised_at = datetime.fromisoformat(status["timestamp"]).timestamp()
        printed_at = float(prompt["prompt"].partition("At ")[2].partition(":")[0])
        yield (raised_at - printed_at - settle_s) * 1e3
        client.post("/message:send", json=answer_body(asker, seen, "y")).raise_for_status()


def _question(client: httpx.Client, task_id: str, seen: str) -> dict[str, Any]:
    ends_at = time.monotonic() + 60
    while time.monotonic() < ends_at:
        status: dict[str, Any] = client.get(f"/tasks/{task_id}").raise_for_status().json()["status"]
        if status["state"] == "TASK_STATE_INPUT_REQUIRED" and status["message"]["metadata"][HITL]["prompt_id"] != seen:
            return status
        if status["state"] not in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"):
            break
        time.sleep(0.02)
    raise RuntimeError(f"no question came: {status}")


def main() -> None:
    """Print a table."""
    print(f"{'beside':26}{'median':>9}{'worst':>9}   (beyond the settle time)")
    for name, flood in FLOODS.items():
        with tempfile.TemporaryDirectory() as folder:
            delays = measure(Path(folder), flood)
        print(f"{name:26}{delays.median:>6.1f} ms{delays.most:>6.1f} ms", flush=True)


if __name__ == "__main__":
    main()
