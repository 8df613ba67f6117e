"""How long is it from a message to a program that works, and does a large daemon pay more?"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ptyprocess

from benchmarks import host
from benchmarks.bench import Bench, said
from benchmarks.result import Goal, Row, percentile

BLOCK = 8
LEVELS = {"standard": 3.0, "strict": 16.0}  # what each may cost more than `none`, in ms


def _send_ms(line: host.Line) -> float:
    done = None
    began = time.monotonic()
    for event in line.events("POST", "/message:stream", host.send_body("nothing.py")):
        state = event.get("statusUpdate", {}).get("status", {}).get("state") or event.get("task", {}).get("status", {}).get(
            "state"
        )
        if state == "TASK_STATE_WORKING":
            took_ms = (time.monotonic() - began) * 1e3
        elif state == "TASK_STATE_COMPLETED":
            done = took_ms
        elif state not in {None, "TASK_STATE_SUBMITTED"}:
            raise RuntimeError(f"a program that does nothing ended so: {event}")
    if done is None:
        raise RuntimeError("the stream ended before the task did")
    return done


def _bare_ms(script: Path) -> float:
    began = time.monotonic()
    process = ptyprocess.PtyProcess.spawn(["/usr/bin/python3", str(script)])
    took_ms = (time.monotonic() - began) * 1e3
    process.wait()
    process.fileobj.close()
    process.closed = True
    return took_ms


def _block(bench_of_one: host.Line, count: int = BLOCK) -> float:
    return percentile([_send_ms(bench_of_one) for _ in range(count)], 50)


def rows(bench: Bench) -> Iterator[Row]:
    """Each level against the one below it; the daemon's size against a small one."""
    rounds = bench.count(6)
    with host.running(bench.folder / "none") as plain:
        script = plain.folder / "workspace" / "nothing.py"
        line = plain.line()
        _block(line)
        mine, bare = [], []
        for _ in range(rounds):
            mine.append(_block(line))
            bare.append(percentile([_bare_ms(script) for _ in range(BLOCK)], 50))
        yield Row(
            "send → working, isolation none, p50", "bare ptyprocess.spawn", Goal("most", 3), "ms", tuple(mine), tuple(bare)
        )
        for level, more_ms in LEVELS.items():
            with host.running(bench.folder / level, level=level) as isolated:
                other = isolated.line()
                _block(other)
                pairs = [(_block(other), _block(line)) for _ in range(rounds)]
            ours, theirs = zip(*pairs, strict=True)
            goal = Goal("most", more_ms, "difference")
            yield Row(f"send → working, isolation {level}, p50", "isolation none", goal, "ms", ours, theirs)
    yield _fat(bench, rounds)


def _fat(bench: Bench, rounds: int) -> Row:
    spawners = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fat", str(bench.folder / f"fat-{megabytes}"), str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for megabytes in (500, 50)
    ]
    try:
        figures: list[list[float]] = [[], []]
        for _ in range(rounds):
            for spawner, took in zip(spawners, figures, strict=True):
                assert spawner.stdin is not None
                spawner.stdin.write("go\n")
                spawner.stdin.flush()
                took.append(float(said(spawner)))
    finally:
        for spawner in spawners:
            spawner.communicate("")
    return Row("spawn at a 500 MB daemon, p50", "at 50 MB", Goal("most", 1.2), "ms", tuple(figures[0]), tuple(figures[1]))
