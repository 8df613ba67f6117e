"""What does a flood of output cost, and who else feels it?"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import ptyprocess

from benchmarks import host
from benchmarks.bench import Bench
from benchmarks.result import Goal, Row, percentile

FLOOD_MB = 100.0


def _bare(script: Path) -> float:
    """MB/s of a loop that does nothing but read."""
    process = ptyprocess.PtyProcess.spawn(["/usr/bin/python3", str(script)])
    began = time.perf_counter()
    try:
        while os.read(process.fd, 65536):
            pass
    except OSError:  # EIO: the program has ended
        pass
    took_s = time.perf_counter() - began
    process.wait()
    process.fileobj.close()
    process.closed = True
    return FLOOD_MB / took_s


def _health_ms(line: host.Line) -> float:
    began = time.perf_counter()
    line.call("GET", "/healthz")
    return (time.perf_counter() - began) * 1e3


def _flood(daemon: host.Host, line: host.Line, health: host.Line) -> tuple[float, list[float]]:
    """MB/s from `working` to `completed`, and how late `/healthz` was meanwhile."""
    over, late = threading.Event(), []

    def ask() -> None:
        while not over.wait(0.02):
            late.append(_health_ms(health))

    began = time.perf_counter()
    line.call("POST", "/message:send", host.send_body("flood.py"))
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        while True:
            (task,) = json.loads(line.call("GET", "/tasks?pageSize=1"))["tasks"]  # without its artifacts
            state = task["status"]["state"]
            if state == "TASK_STATE_COMPLETED":
                return FLOOD_MB / (time.perf_counter() - began), late
            if state not in {"TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"}:
                raise RuntimeError(f"the flood ended so: {task['status']}")
            time.sleep(0.1)
    finally:
        over.set()
        asking.join()


def rows(bench: Bench) -> Iterator[Row]:
    """Through detection, store and events, and beside it the liveness check."""
    ours, bare, quiet, busy = [], [], [], []
    with host.running(bench.folder / "flooding") as daemon:
        line, health = daemon.line(), daemon.line()
        for _ in range(bench.count(3)):
            quiet.append(percentile([_health_ms(health) for _ in range(100)], 50))
            rate, late = _flood(daemon, line, health)
            ours.append(rate)
            busy.append(percentile(late, 50))
            bare.append(_bare(daemon.folder / "workspace" / "flood.py"))
    what = "100 MB flood through detection, store, events"
    yield Row(what, "bare read loop", Goal("least", 0.5), "MB/s", tuple(ours), tuple(bare))
    yield Row("`/healthz` p50 meanwhile", "idle", Goal("most", 3), "ms", tuple(busy), tuple(quiet))
