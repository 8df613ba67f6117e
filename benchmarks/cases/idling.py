"""What does a task cost that does nothing?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from benchmarks import host
from benchmarks.bench import Bench
from benchmarks.result import Goal, Row, percentile

TASKS = 1000


def _health_ms(line: host.Line) -> float:
    late = []
    for _ in range(200):
        began = time.perf_counter()
        line.call("GET", "/healthz")
        late.append((time.perf_counter() - began) * 1e3)
    return percentile(late, 50)


def rows(bench: Bench) -> Iterator[Row]:
    """A daemon with many idle ptys, beside an empty one."""
    tasks = bench.count(TASKS, least=50)
    with host.running(bench.folder / "idling") as daemon, host.running(bench.folder / "empty") as empty:
        line, other = daemon.line(), empty.line()
        line.call("POST", "/message:send", host.send_body("idle.sh", "sh"))
        _health_ms(line)
        rss, fds = daemon.rss_bytes(), daemon.fds(line)
        ids = [
            json.loads(line.call("POST", "/message:send", host.send_body("idle.sh", "sh")))["task"]["id"] for _ in range(tasks)
        ]
        time.sleep(1)
        per_task = (daemon.rss_bytes() - rss) / tasks / 1000
        fds_per_task = (daemon.fds(line) - fds) / tasks
        full, bare = [], []
        for _ in range(bench.count(5)):
            full.append(_health_ms(line))
            bare.append(_health_ms(other))
        for task_id in ids:
            line.call("POST", f"/tasks/{task_id}:cancel", b"{}")
    yield Row(f"idle pty: memory, {tasks} of them", "", Goal("most", 32, "value"), "KB", (per_task,))
    yield Row("idle pty: descriptors", "", Goal("most", 3, "value"), "fds", (fds_per_task,))
    yield Row(f"`/healthz` p50, {tasks} live tasks", "an empty daemon", Goal("most", 1.2), "ms", tuple(full), tuple(bare))
