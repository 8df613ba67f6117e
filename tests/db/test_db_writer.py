"""Is what returned on disk, does each fail alone, and is the queue bounded?"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.db.database import Database, open_database
from sandboxd.db.writer import Writer
from tests.db.facts import SCHEMA, insert, numbers


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_database(tmp_path / "state" / "facts.sqlite", SCHEMA)
    yield opened
    await opened.close()


@pytest.fixture
async def small(connection: sqlite3.Connection) -> AsyncIterator[Writer]:
    writer = Writer(connection, max_items=3, max_bytes=100)
    yield writer
    await writer.stop()


class Gate:
    """A piece of work that holds the writer's thread until it is opened."""

    def __init__(self) -> None:
        self.reached, self._go = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        self.reached.set()
        assert self._go.wait(10)

    def open(self) -> None:
        self._go.set()

    async def wait_reached(self) -> None:
        assert await trio.to_thread.run_sync(self.reached.wait, 10)


async def test_what_returned_is_seen_by_every_read_that_follows(database):
    for number in range(20):
        assert await database.write(insert(number)) == number
        assert await database.read(numbers) == list(range(number + 1))


async def test_what_is_written_in_one_round_of_the_loop_is_one_commit(small, connection):
    commits: list[str] = []
    connection.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)

    async with trio.open_nursery() as nursery:  # both run in the first round
        nursery.start_soon(small.write, insert(1))
        nursery.start_soon(small.write, insert(2))

    assert numbers(connection) == [1, 2]
    assert len(commits) == 1


async def test_a_commit_is_flushed_to_disk(database):
    mode, synchronous = await database.write(
        lambda c: (c.execute("PRAGMA journal_mode").fetchone(), c.execute("PRAGMA synchronous").fetchone())
    )

    assert mode == ("wal",)
    assert synchronous == (2,)  # FULL


async def test_a_read_cannot_write(database):
    with pytest.raises(DatabaseUnavailable, match="readonly"):
        await database.read(insert(1))


async def test_a_read_that_raises_midway_does_not_hold_its_moment_fast(database):
    def midway(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT number FROM facts")
        for row in rows:
            raise KeyError(row)

    for number in range(3):
        await database.write(insert(number))
    with pytest.raises(KeyError) as held:
        await database.read(midway)
    await database.write(insert(7))

    assert await database.read(numbers) == [0, 1, 2, 7]
    assert held.value.args == ((0,),)


async def test_work_that_raises_is_undone_alone(database):
    def half(connection: sqlite3.Connection) -> None:
        insert(98)(connection)
        raise KeyError("half done")

    await database.write(insert(1))
    with pytest.raises(KeyError, match="half done"):
        await database.write(half)

    assert await database.read(numbers) == [1]


async def test_those_who_wait_together_share_one_commit(database):
    gate = Gate()
    statements: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, gate)
        await gate.wait_reached()
        await database.read(numbers)
        nursery.start_soon(database.write, lambda c: c.set_trace_callback(statements.append))
        for number in range(100):
            nursery.start_soon(database.write, insert(number))
        await trio.testing.wait_all_tasks_blocked()
        gate.open()

    assert await database.read(numbers) == list(range(100))
    assert statements.count("COMMIT") == 1


async def test_a_full_disk_is_said_and_later_writes_succeed(database):
    (pages,) = await database.write(lambda c: c.execute("PRAGMA page_count").fetchone())
    await database.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 20}").fetchone())
    kept = []
    with pytest.raises(DatabaseUnavailable, match=r"database or disk is full \(SQLITE_FULL\)"):
        for number in range(100):
            kept.append(await database.write(insert(number, bytes(10_000))))
    assert await database.read(numbers) == kept

    await database.write(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
    kept.append(await database.write(insert(1000, bytes(10_000))))
    assert await database.read(numbers) == kept


async def test_a_group_that_does_not_fit_loses_nothing_that_was_acknowledged(database):
    (pages,) = await database.write(lambda c: c.execute("PRAGMA page_count").fetchone())
    await database.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 50}").fetchone())
    kept: list[int] = []
    refused: list[int] = []

    async def write(number: int) -> None:
        try:
            kept.append(await database.write(insert(number, bytes(5000))))
        except DatabaseUnavailable:
            refused.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(write, number)

    assert len(refused) > 0
    assert await database.read(numbers) == sorted(kept)


async def test_a_cancelled_caller_abandons_only_the_waiting(database):
    gate = Gate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, gate)
        await gate.wait_reached()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                inner.start_soon(database.write, insert(7))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        gate.open()
    await database.write(insert(8))  # behind the abandoned one

    assert await database.read(numbers) == [7, 8]


async def test_a_caller_that_is_cancelled_before_it_is_accepted_writes_nothing(database):
    with trio.CancelScope() as scope:
        scope.cancel()
        await database.write(insert(7))
    await database.write(insert(8))

    assert await database.read(numbers) == [8]


async def _fill(writer: Writer, nursery: trio.Nursery, gate: Gate) -> None:
    nursery.start_soon(writer.write, gate)
    await gate.wait_reached()


async def test_callers_wait_while_the_queue_is_full_and_go_in_order(small):
    gate, order = Gate(), []

    async def write(number: int) -> None:
        await small.write(lambda c: order.append(number))

    async with trio.open_nursery() as nursery:
        await _fill(small, nursery, gate)
        for number in range(8):
            nursery.start_soon(write, number)
            await trio.testing.wait_all_tasks_blocked()
        queued = small._items
        gate.open()

    assert queued == 3
    assert order == list(range(8))
    assert (small._items, small._bytes) == (0, 0)


async def test_the_queue_is_bounded_in_bytes_too(small):
    gate = Gate()
    async with trio.open_nursery() as nursery:
        await _fill(small, nursery, gate)
        for _ in range(2):
            nursery.start_soon(lambda: small.write(lambda c: None, size_bytes=60))
            await trio.testing.wait_all_tasks_blocked()
        queued = small._bytes
        gate.open()

    assert queued == 60


async def test_what_is_larger_than_the_whole_bound_goes_alone(small):
    with trio.fail_after(20):
        assert await small.write(lambda c: "in", size_bytes=1_000_000) == "in"


async def test_a_caller_cancelled_while_it_waits_for_room_makes_way_for_the_next(small):
    gate, order = Gate(), []
    async with trio.open_nursery() as nursery:
        await _fill(small, nursery, gate)
        for _ in range(2):
            nursery.start_soon(small.write, lambda c: None)
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                inner.start_soon(small.write, lambda c: order.append("cancelled"))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        nursery.start_soon(small.write, lambda c: order.append("next"))
        await trio.testing.wait_all_tasks_blocked()
        gate.open()

    assert order == ["next"]


async def test_closing_finishes_what_was_accepted_and_refuses_who_waits_for_room(small, connection):
    gate, refused = Gate(), []

    async def write(number: int) -> None:
        try:
            await small.write(insert(number))
        except DatabaseUnavailable as error:
            refused.append((number, str(error)))

    async with trio.open_nursery() as nursery:
        await _fill(small, nursery, gate)
        for number in range(4):
            nursery.start_soon(write, number)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(small.stop)
        await trio.testing.wait_all_tasks_blocked()
        gate.open()

    assert numbers(connection) == [0, 1]
    assert sorted(refused) == [(2, "it is closed"), (3, "it is closed")]


async def test_reads_that_were_asked_for_end_before_the_file_is_closed(database):
    gate, results = threading.Event(), []

    def slow(connection: sqlite3.Connection) -> list[int]:
        assert gate.wait(10)
        return numbers(connection)

    async def read() -> None:
        results.append(await database.read(slow))

    await database.write(insert(1))
    async with trio.open_nursery() as nursery:
        for _ in range(6):  # more than there are connections
            nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(database.close)
        await trio.testing.wait_all_tasks_blocked()
        gate.set()

    assert results == [[1]] * 6
    with pytest.raises(DatabaseUnavailable, match="it is closed"):
        await database.read(numbers)
