"""Does a daemon that talks for minutes stay as large as it is, and lose nothing?

    python -m tests.soak.soak --seconds 600 --ptys 200 --subscribers 50

Starts a daemon, tasks that talk on ptys, of which every fifth asks now and then, clients that follow them and come back by
number, and one that answers. Ends everything, prints figures, and exits with 1 when the daemon and its children grew by more
than 5 % in the second half, hold more descriptors, or an event, a line or an answer is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import attrs
import httpx
import trio

from sandboxd.runner.tree import children_of
from tests.support.daemon import HITL, Daemon, prompt_of

HALVES: Final = 2
GROWTH_MAX: Final = 0.05
SAMPLE_S: Final = 1.0
ASKS_EVERY: Final = 5  # of the tasks, and a task that asks does so every `LINES` lines
LINES: Final = 8
PAUSE_S: Final = 1.0
STARTERS: Final = 4
ASKED: Final[dict[str, str | int]] = {
    "status": "TASK_STATE_INPUT_REQUIRED",
    "pageSize": 100,
    "historyLength": 0,
}  # whoever answers needs no more
LIMIT_S: Final = 900  # of a task, the longest that adapter-command/v1 knows
SPARE_S: Final = 60  # to end everything
POLICY = """
format = 1
adapter = "talker"

[command]
program = "bash"
argv = ["bash", "{{script}}"]
terminal = "text-line"

[command.env]
PATH = "/usr/bin:/bin"
PAUSE = "{pause}"
EVERY = "{every}"

[hole.mode]
one-of = ["plan"]

[hole.script]
path-under = ["."]

[limits]
timeout = {{ default = "15m", max = "15m" }}

[prompts]
max = 10000
"""


@attrs.define
class Sample:
    """The daemon and its spawner at one moment."""

    at_s: float
    rss_bytes: int
    descriptors: int
    cpu_s: float


@attrs.define
class Place:
    """How far somebody has heard of a task."""

    task: str
    seen: int = 1
    is_over: bool = False


@attrs.define
class Soak:
    """What was asked for, and what was seen."""

    daemon: Daemon
    seconds: float
    ptys: int
    subscribers: int
    tasks: list[str] = attrs.field(factory=list)
    samples: list[Sample] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    heard: int = 0
    resumed: int = 0
    answered: int = 0
    unsure: int = 0  # answers of which nobody heard what came of them
    broken: int = 0  # connections; a client comes back
    lines: int = 0
    told: int = 0
    start_s: float = 0
    load: tuple[float, float, float] = attrs.field(factory=os.getloadavg)  # of the machine, which others may use too
    client: httpx.AsyncClient = attrs.field(default=None)

    async def run(self) -> None:
        headers = {"Authorization": f"Bearer {self.daemon.token}", "A2A-Version": "1.0", "A2A-Extensions": HITL}
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=self.daemon.url, headers=headers, timeout=60, trust_env=False, limits=limits
        ) as self.client:
            began = time.monotonic()
            self.tasks = [""] * self.ptys
            async with trio.open_nursery() as starters:  # some at a time, as clients do
                for first in range(STARTERS):
                    starters.start_soon(self._start_some, range(first, self.ptys, STARTERS))
            self.start_s = time.monotonic() - began
            assert self.start_s + self.seconds < LIMIT_S - SPARE_S, f"{self.start_s:.0f} s to start: their limit would end them"
            async with trio.open_nursery() as nursery:  # listeners, the answerer and the watcher
                for number in range(self.subscribers):
                    nursery.start_soon(self._follow, self.tasks[number % len(self.tasks)])
                with trio.move_on_after(self.seconds):
                    async with trio.open_nursery() as timed:
                        timed.start_soon(self._answer_regularly)
                        timed.start_soon(self._watch)
                await self._answer()  # nobody is left waiting, so the last line of everybody is whole
                await self._in_batches(self._cancel)
            await self._in_batches(self._check)

    async def _start_some(self, numbers: range) -> None:
        for number in numbers:
            self.tasks[number] = await self._start("asker" if number % ASKS_EVERY == 0 else "talker")

    async def _start(self, adapter: str) -> str:
        envelope = {
            "adapter": adapter,
            "mode": "plan",
            "command": ["bash", "talker.sh"],
            "working_dir": "/workspace",
            "timeout_seconds": LIMIT_S,
            "input_mode": "text-line",
        }
        body = self.daemon.message(envelope) | {"configuration": {"returnImmediately": True}}
        answer = await self.client.post("/message:send", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["task"]["id"])

    async def _follow(self, task: str) -> None:
        """Every event of the task, by many connections that each end after a while; the numbers have no gap."""
        place = Place(task)
        while not place.is_over:
            try:
                with trio.move_on_after(random.uniform(5, 60)):
                    await self._listen(place)
            except httpx.HTTPError:
                self.broken += 1
                await trio.sleep(1)
            self.resumed += 1

    async def _listen(self, place: Place) -> None:
        headers = {"Last-Event-ID": str(place.seen)}
        async with self.client.stream("POST", f"/tasks/{place.task}:subscribe", headers=headers) as answer:
            if answer.status_code != 200:
                self.faults.append(f"{place.task}: cannot follow after {place.seen}: {await answer.aread()!r}")
                place.is_over = True
                return
            expected = place.seen  # the first event is the task as it stood there
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    place.seen = int(line[4:])
                    if place.seen != expected:
                        self.faults.append(f"{place.task}: event {place.seen} in place of {expected}")
                    expected = place.seen + 1
                    self.heard += 1
                elif line.startswith("event: error"):
                    self.faults.append(f"{place.task}: the stream broke after {place.seen}")
                    place.is_over = True
                elif line.startswith("data: "):
                    place.is_over = place.is_over or '"TASK_STATE_CANCELED"' in line

    async def _answer_regularly(self) -> None:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                await self._answer()
            await trio.sleep(0.5)

    async def _answer(self) -> None:
        found = await self.client.get("/tasks", params=ASKED)
        for task in found.json()["tasks"]:
            payload = {"text": "y"}
            response = {"prompt_id": prompt_of(task)["prompt_id"], "payload": payload}
            message = self.daemon.message()["message"] | {
                "taskId": task["id"],
                "contextId": task["contextId"],
                "parts": [{"data": payload, "mediaType": "application/json"}],
                "metadata": {"hitl_response_for": response},
            }
            body = {"message": message, "configuration": {"returnImmediately": True}}
            try:
                answer = await self.client.post("/message:send", json=body)
            except (httpx.HTTPError, trio.Cancelled):
                self.unsure += 1
                raise
            self.answered += answer.status_code == 200
            if answer.status_code not in (200, 409):
                self.faults.append(f"{task['id']}: an answer was refused: {answer.text}")

    async def _watch(self) -> None:
        began = time.monotonic()
        while True:
            assert self.daemon.process is not None
            pids = [self.daemon.process.pid, *children_of(self.daemon.process.pid)]
            answer = await self.client.get("/metrics")  # a daemon that cannot be traced tells its descriptors itself
            told = re.findall(r"^sandboxd_open_descriptors (\S+)", answer.text, re.M)
            if not told:
                self.faults.append(f"/metrics says {answer.status_code}: {answer.text[:200]!r}")
                await trio.sleep(SAMPLE_S)
                continue
            descriptors = float(told[0])
            rss, cpu = sum(map(rss_bytes, pids)), sum(map(cpu_s, pids))
            self.samples.append(Sample(time.monotonic() - began, rss, int(descriptors), cpu))
            await trio.sleep(SAMPLE_S)

    async def _in_batches(self, act: Callable[[str], Awaitable[None]]) -> None:
        for start in range(0, len(self.tasks), 10):
            async with trio.open_nursery() as nursery:
                for task in self.tasks[start : start + 10]:
                    nursery.start_soon(self._try, act, task)

    async def _try(self, act: Callable[[str], Awaitable[None]], task: str) -> None:
        for _ in range(5):
            try:
                await act(task)
                return
            except httpx.HTTPError as error:
                why = repr(error)
        self.faults.append(f"{task}: {why}")

    async def _cancel(self, task: str) -> None:
        answer = await self.client.post(f"/tasks/{task}:cancel")
        if answer.status_code != 200 and "canceled already" not in answer.text:
            self.faults.append(f"{task}: cannot cancel: {answer.text}")

    async def _check(self, task: str) -> None:
        """Every line that the program printed is kept, in order."""
        kept = await self.client.get(f"/tasks/{task}/artifacts/terminal")
        numbers = [int(number) for number in re.findall(r"^line (\d+) of a program that has a lot to say", kept.text, re.M)]
        if not numbers or numbers != list(range(1, len(numbers) + 1)):
            self.faults.append(f"{task}: lines are missing or doubled: {numbers[:3]} … {numbers[-3:]}")
        self.lines += len(numbers)
        self.told += len(re.findall(r"^told \d+ y", kept.text, re.M))

    def _minutes(self) -> list[list[int]]:
        minutes: dict[int, list[int]] = {}
        for sample in self.samples:
            minutes.setdefault(int(sample.at_s // 60), []).append(sample.rss_bytes)
        return list(minutes.values())

    def figures(self) -> dict[str, Any]:
        """What came of it; `faults` empty: all is well."""
        half = [sample for sample in self.samples if sample.at_s >= self.seconds / HALVES]
        quarter = max(1, len(half) // 4)
        span_s = self.samples[-1].at_s - self.samples[0].at_s
        cpu = (self.samples[-1].cpu_s - self.samples[0].cpu_s) / span_s
        first, last = half[:quarter], half[-quarter:]
        rss = [statistics.median(sample.rss_bytes for sample in part) for part in (first, last)]
        descriptors = [statistics.median(sample.descriptors for sample in part) for part in (first, last)]
        growth = rss[1] / rss[0] - 1
        faults = [*self.faults]
        if growth > GROWTH_MAX:
            faults.append(f"the daemon grew by {growth:.1%} in the second half")
        if descriptors[1] > descriptors[0] * (1 + GROWTH_MAX) + 2:
            faults.append(f"its descriptors grew from {descriptors[0]:.0f} to {descriptors[1]:.0f}")
        if not self.answered <= self.told <= self.answered + self.unsure:
            faults.append(f"{self.answered} answers were accepted, and {self.told} were read")
        return {
            "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
            "load": {"before": [round(load, 1) for load in self.load], "after": [round(load, 1) for load in os.getloadavg()]},
            "seconds": self.seconds,
            "start_seconds": round(self.start_s, 1),
            "cpu": round(cpu, 2),
            "ptys": self.ptys,
            "subscribers": self.subscribers,
            "lines": self.lines,
            "events_heard": self.heard,
            "streams_resumed": self.resumed,
            "connections_broken": self.broken,
            "answers": self.answered,
            "answers_unsure": self.unsure,
            "rss_mib": [round(value / 1024**2, 1) for value in rss],
            "rss_mib_by_minute": [round(statistics.median(part) / 1024**2, 1) for part in self._minutes()],
            "rss_growth": round(growth, 4),
            "descriptors": descriptors,
            "faults": faults,
        }


def soak(folder: Path, *, seconds: float, ptys: int, subscribers: int) -> dict[str, Any]:
    """Start, run, stop; the figures."""
    limits = f'[limits]\nmax_tasks = {ptys + 8}\nmax_subscribers_per_task = {subscribers + 8}\nrate = 0\nstop_grace = "100ms"\n'
    daemon = Daemon(folder, "/bin/true", policy=POLICY.format(pause=PAUSE_S, every=0), extra=limits)
    asker = folder / "asker.toml"
    asker.write_text(POLICY.format(pause=PAUSE_S, every=LINES).replace('"talker"', '"asker"'))
    asker.chmod(0o644)
    daemon.config.write_text(daemon.config.read_text().replace("policies = [", f'policies = ["{asker}", '))
    (daemon.workspace / "talker.sh").write_text(Path(__file__).with_name("talker.sh").read_text())
    daemon.start()
    found = Soak(daemon, seconds, ptys, subscribers)
    try:
        trio.run(found.run)
    finally:
        daemon.end()
    return found.figures()


def cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--ptys", type=int, default=200)
    parser.add_argument("--subscribers", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = soak(Path(folder), seconds=given.seconds, ptys=given.ptys, subscribers=given.subscribers)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
