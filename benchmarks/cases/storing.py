"""How fast does what happens get on disk?

In the bench's own process, through the store that the daemon uses; the peers do the plain thing with SQLite and with a file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import trio

from benchmarks.bench import Bench
from benchmarks.result import Goal, Row
from sandboxd.a2a.model import Message, Part
from sandboxd.store.base import Entry
from sandboxd.store.sqlite import open_store
from sandboxd.tasks.events import Event, Started, Submitted, Wrote
from sandboxd.tasks.view import TaskView, fold

PRODUCERS = 10
OUTPUT_BYTES = 50_000_000
AT_ONCE = 16  # chunks: what a run that is behind puts into one append
CHUNK = os.urandom(32 * 1024).hex().encode()  # 64 KiB: as much as a run gathers before it appends


def _now() -> datetime:
    return datetime.now(UTC)


def _begun() -> tuple[list[Entry], TaskView]:
    """A task that works."""
    view = TaskView(str(uuid.uuid4()), "context", "bench")
    message = Message(str(uuid.uuid4()), "user", (Part("text", "go"),))
    started = Started(_now(), {})
    events: list[Event] = [Submitted(_now(), message), started]
    for event in events:
        view = fold(view, event)
    return [Entry(event) for event in events], view


def _wrote(view: TaskView, offset: int, data: bytes) -> tuple[list[Entry], TaskView]:
    event = Wrote(_now(), "terminal", offset, len(data), first=offset == 0, last=False)
    return [Entry(event, data)], fold(view, event)


async def _events_per_second(path: Path, each: int) -> float:
    async with open_store(path) as store:

        async def produce() -> None:
            entries, view = _begun()
            await store.create("bench", entries, view)
            for number in range(each):
                after = view.seq
                entries, view = _wrote(view, 250 * number, b"x" * 250)
                await store.append(entries, view, after=after)

        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(PRODUCERS):
                nursery.start_soon(produce)
        return PRODUCERS * each / (time.perf_counter() - began)


async def _commits_per_second(path: Path, each: int) -> float:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE event(id INTEGER PRIMARY KEY, body BLOB)",
    ):
        connection.execute(statement)
    lock = trio.Lock()

    async def produce() -> None:
        for _ in range(each):
            async with lock:
                await trio.to_thread.run_sync(connection.execute, "INSERT INTO event(body) VALUES (?)", (b"x" * 250,))

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(PRODUCERS):
            nursery.start_soon(produce)
    took_s = time.perf_counter() - began
    connection.close()
    return PRODUCERS * each / took_s


async def _output(path: Path) -> tuple[float, float]:
    """MB/s, and the longest time that the loop was away, in ms."""
    gaps_s = [0.0]

    async def watch() -> None:
        last = time.perf_counter()
        while True:
            await trio.sleep(0.001)
            now = time.perf_counter()
            gaps_s.append(now - last - 0.001)
            last = now

    async with open_store(path) as store, trio.open_nursery() as nursery:
        entries, view = _begun()
        await store.create("bench", entries, view)
        nursery.start_soon(watch)
        began = time.perf_counter()
        for start in range(0, OUTPUT_BYTES, AT_ONCE * len(CHUNK)):
            after, batch = view.seq, []
            for number in range(AT_ONCE):
                entries, view = _wrote(view, start + number * len(CHUNK), CHUNK)
                batch += entries
            await store.append(batch, view, after=after)
        took_s = time.perf_counter() - began
        nursery.cancel_scope.cancel()
    return OUTPUT_BYTES / took_s / 1e6, max(gaps_s) * 1e3


def _append(path: Path) -> float:
    """MB/s of a file that is appended to, in the same pieces, on disk at the end."""
    began = time.perf_counter()
    with path.open("ab", buffering=0) as file:
        for _ in range(OUTPUT_BYTES // len(CHUNK)):
            file.write(CHUNK)
        os.fdatasync(file.fileno())
    return OUTPUT_BYTES / (time.perf_counter() - began) / 1e6


def rows(bench: Bench) -> Iterator[Row]:
    """Small events by many, then much output by one."""
    folder = bench.folder / "storing"
    folder.mkdir()
    each = bench.count(500)
    ours, theirs, stored, appended, gaps = [], [], [], [], []
    for number in range(bench.count(5)):
        ours.append(trio.run(_events_per_second, folder / f"ours-{number}", each))
        theirs.append(trio.run(_commits_per_second, folder / f"theirs-{number}", each))
        rate, gap_ms = trio.run(_output, folder / f"output-{number}")
        stored.append(rate)
        gaps.append(gap_ms)
        appended.append(_append(folder / f"file-{number}"))
        shutil.rmtree(folder)
        folder.mkdir()
    what = f"durable events/s, {PRODUCERS} producers"
    yield Row(what, "commit per event", Goal("least", 6), "/s", tuple(ours), tuple(theirs))
    yield Row("50 MB of output stored", "append to a file", Goal("least", 0.3), "MB/s", tuple(stored), tuple(appended))
    yield Row("loop gap meanwhile, longest", "", Goal("most", 20, "value"), "ms", tuple(gaps))
