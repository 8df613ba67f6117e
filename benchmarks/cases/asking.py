"""How soon does a client hear of a question, and the program of its answer?

The program prints the time in its question, so nothing but the bytes themselves is between it and who sees them. The settle
time, which the event names, is taken off: it is how long the detector must see silence, and not a cost.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import attrs

from benchmarks import host
from benchmarks.bench import Bench, said
from benchmarks.result import Goal, Row, percentile

_TIMES = re.compile(r"read (\d+), asked (\d+)\? \[y/N\]")
TALKERS = 200
BLOCK = 20  # questions in a row, before it is the other one's turn


@attrs.define
class Asked:
    """What a block of questions took, in milliseconds each."""

    question_ms: list[float] = attrs.field(factory=list)
    answer_ms: list[float] = attrs.field(factory=list)
    echo_ms: list[float] = attrs.field(factory=list)


class Talk:
    """A task that asks, the stream that hears it, and the connection that answers."""

    def __init__(self, daemon: host.Host) -> None:
        self._line = daemon.line()
        task = json.loads(self._line.call("POST", "/message:send", host.send_body("asker.py")))["task"]
        self._events = daemon.line().events("GET", f"/tasks/{task['id']}:subscribe")
        self._next = self._question()

    def block(self, count: int = BLOCK) -> Asked:
        """Hear and answer that many questions; after each answer a message that is only echoed, for comparison."""
        found = Asked()
        for _ in range(count):
            late_ms, task_id, prompt_id = self._next
            found.question_ms.append(late_ms)
            body = host.answer_body(task_id, prompt_id)
            posted = time.monotonic_ns()
            self._line.call("POST", "/message:send", body)
            self._next = self._question()
            found.answer_ms.append((self._read_ns - posted) / 1e6)
            body = host.message_body()
            posted = time.monotonic_ns()
            self._line.call("POST", "/message:send", body)
            found.echo_ms.append((time.monotonic_ns() - posted) / 1e6)
        return found

    def _question(self) -> tuple[float, str, str]:
        for event in self._events:
            now = time.monotonic_ns()
            found = _prompt(event)
            if found is None:
                continue
            task_id, prompt, facts = found
            match = _TIMES.search(prompt["prompt"])
            if match is None:
                raise RuntimeError(f"a question of somebody else's: {prompt}")
            self._read_ns = int(match[1])
            late_ms = (now - int(match[2])) / 1e6 - facts["evidence"]["settle_s"] * 1e3
            return late_ms, task_id, prompt["prompt_id"]
        raise RuntimeError("the task ended")


def _prompt(event: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    update, task = event.get("statusUpdate"), event.get("task")
    known = update or task
    if known is None:
        return None
    metadata = known["status"].get("message", {}).get("metadata", {})
    if host.HITL not in metadata:
        return None
    return known["taskId"] if update else known["id"], metadata[host.HITL], metadata[host.PROMPT]


def rows(bench: Bench) -> Iterator[Row]:
    """Question and answer, with an idle host and with one where 200 programs talk."""
    rounds = bench.count(8)
    quiet, expected, busy = [], [], []
    with (
        host.running(bench.folder / "asking") as daemon,
        host.running(bench.folder / "asking-busy") as crowded,
        bench.peer("expect", str(daemon.folder / "workspace" / "asker.py")) as peer,
    ):
        quiet_talk, busy_talk = Talk(daemon), Talk(crowded)
        starter = crowded.line()
        for _ in range(rounds):
            quiet.append(quiet_talk.block())
            assert peer.stdin is not None
            peer.stdin.write(f"{BLOCK}\n")
            peer.stdin.flush()
            expected.append([late / 1e6 for late in json.loads(said(peer))])
        for _ in range(TALKERS):
            starter.call("POST", "/message:send", host.send_body("talker.py"))
        busy_talk.block()  # they have all begun
        idle = []
        for _ in range(bench.count(4)):
            busy.append(busy_talk.block())
            idle.append(quiet_talk.block())

    everything = [late for block in quiet for late in block.question_ms]
    what = "prompt printed → envelope at an SSE client, less settle time"
    yield Row(
        f"{what}, p50",
        "pexpect.expect",
        Goal("most", 2.5),
        "ms",
        tuple(percentile(block.question_ms, 50) for block in quiet),
        tuple(percentile(block, 50) for block in expected),
        note="committed to disk before it is sent; pexpect sees it in the process that reads the terminal",
    )
    yield Row(f"{what}, p99", "", Goal("most", 5, "value"), "ms", (percentile(everything, 99),))
    yield Row(
        f"{what}, p50, {TALKERS} talking ptys",
        "idle",
        Goal("most", 1.5),
        "ms",
        tuple(percentile(block.question_ms, 50) for block in busy),
        tuple(percentile(block.question_ms, 50) for block in idle),
    )
    yield Row(
        "answer POST → child has read it, p50",
        "echo POST on the same server",
        Goal("most", 1.5),
        "ms",
        tuple(percentile(block.answer_ms, 50) for block in quiet),
        tuple(percentile(block.echo_ms, 50) for block in quiet),
    )
