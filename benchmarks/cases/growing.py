"""Does a store that has seen ten times as much answer as fast?"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import trio

from benchmarks import host
from benchmarks.bench import Bench
from benchmarks.result import Goal, Row, percentile
from sandboxd.a2a.model import Message, Part
from sandboxd.store.base import Entry
from sandboxd.store.sqlite import open_store
from sandboxd.tasks.events import Event, Finished, Started, Submitted
from sandboxd.tasks.view import TaskView, fold

FEW, MANY = 10_000, 100_000
_AT_ONCE = 200


async def _fill(path: Path, count: int) -> str:
    """That many finished tasks; the id of one in their midst."""
    ids = [str(uuid.uuid4()) for _ in range(count)]
    left = iter(ids)
    async with open_store(path) as store:

        async def make() -> None:
            for task_id in left:
                now = datetime.now(UTC)
                message = Message(str(uuid.uuid4()), "user", (Part("text", "go"),))
                view = TaskView(task_id, str(uuid.uuid4()), "bench")
                started = Started(now, {})
                events: list[Event] = [
                    Submitted(now, message),
                    started,
                    Finished(now, str(uuid.uuid4()), "exit", None, "Done.", 0),
                ]
                for event in events:
                    view = fold(view, event)
                await store.create("bench", [Entry(event) for event in events], view)

        async with trio.open_nursery() as nursery:
            for _ in range(_AT_ONCE):
                nursery.start_soon(make)
    return ids[count // 2]


def _p50_ms(line: host.Line, path: str, count: int = 20) -> float:
    late = []
    for _ in range(count):
        began = time.perf_counter()
        json.loads(line.call("GET", path))
        late.append((time.perf_counter() - began) * 1e3)
    return percentile(late, 50)


def rows(bench: Bench) -> Iterator[Row]:
    """The same questions to both, in turn."""
    folders = {
        count: bench.folder / f"growing-{count}" for count in (round(FEW * min(1, bench.scale * 2)), round(MANY * bench.scale))
    }
    ids = {}
    for count, folder in folders.items():
        (folder / "state").mkdir(parents=True)
        ids[count] = trio.run(_fill, folder / "state" / "sandboxd.sqlite3", count)
    figures: dict[str, dict[int, list[float]]] = {name: {count: [] for count in folders} for name in ("list", "get", "start")}
    for _ in range(bench.count(4)):
        for count, folder in folders.items():
            with host.running(folder) as daemon:
                line = daemon.line()
                figures["start"][count].append(daemon.ready_s * 1e3)
                figures["list"][count].append(_p50_ms(line, "/tasks?pageSize=50"))
                figures["get"][count].append(_p50_ms(line, f"/tasks/{ids[count]}"))
    few, many = folders
    names = {"list": "list page", "get": "get", "start": "start-up"}
    for name, spelled in names.items():
        what, against = f"{many:,} tasks in the store: {spelled}", f"{few:,}"
        yield Row(what, against, Goal("most", 1.3), "ms", tuple(figures[name][many]), tuple(figures[name][few]))
