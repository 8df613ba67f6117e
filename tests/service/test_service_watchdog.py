"""Does the watchdog hear of progress, and only of progress?"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from sandboxd.service.notify import Notifier
from sandboxd.service.watchdog import ROUNDS, feed
from sandboxd.store.base import StoreUnavailable
from sandboxd.store.sqlite import SqliteStore, open_store
from tests.service.conftest import Ear

PATIENCE_S = 0.6


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(tmp_path / "state" / "store.sqlite") as opened:
        yield opened


async def hear(ear: Ear, count: int = 1) -> list[dict[str, str]]:
    """Wait until systemd has heard so many."""
    heard: list[dict[str, str]] = []
    with trio.fail_after(20):
        while len(heard) < count:
            heard += ear.heard()
            await trio.sleep(0.01)
    return heard


async def silence(ear: Ear) -> list[dict[str, str]]:
    """What is heard while systemd loses its patience."""
    ear.heard()
    await trio.sleep(PATIENCE_S * 2)
    return ear.heard()


async def test_a_daemon_that_gets_on_is_fed(store: SqliteStore, ear: Ear, notifier: Notifier, nursery: trio.Nursery) -> None:
    nursery.start_soon(feed, notifier, PATIENCE_S, store.check, lambda: "ready: 2 tasks live")

    assert await hear(ear, 3) == [{"WATCHDOG": "1", "STATUS": "ready: 2 tasks live"}] * 3


async def test_a_writer_that_hangs_stops_the_feeding(
    store: SqliteStore, ear: Ear, notifier: Notifier, nursery: trio.Nursery
) -> None:
    go_on = threading.Event()
    nursery.start_soon(feed, notifier, PATIENCE_S, store.check, lambda: "ready")
    await hear(ear)

    def hang(connection: sqlite3.Connection) -> None:
        go_on.wait(60)  # as a write(2) to a dead disk does

    nursery.start_soon(store._database.write, hang)
    try:
        await trio.sleep(PATIENCE_S / ROUNDS)  # a round may be under way, which the writer had done before
        assert await silence(ear) == []
    finally:
        go_on.set()
    await hear(ear)


async def test_readers_that_hang_stop_the_feeding(
    store: SqliteStore, ear: Ear, notifier: Notifier, nursery: trio.Nursery
) -> None:
    go_on = threading.Event()
    nursery.start_soon(feed, notifier, PATIENCE_S, store.check, lambda: "ready")
    await hear(ear)

    def hang(connection: sqlite3.Connection) -> None:
        go_on.wait(60)

    for _ in range(8):
        nursery.start_soon(store._database.read, hang)
    try:
        await trio.sleep(PATIENCE_S / ROUNDS)
        assert await silence(ear) == []
    finally:
        go_on.set()
    await hear(ear)


async def test_a_loop_that_is_stuck_stops_the_feeding(
    store: SqliteStore, ear: Ear, notifier: Notifier, nursery: trio.Nursery
) -> None:
    nursery.start_soon(feed, notifier, PATIENCE_S, store.check, lambda: "ready")
    await hear(ear)
    ear.heard()

    time.sleep(PATIENCE_S * 2)  # noqa: ASYNC251  # this is the fault

    assert ear.heard() == []
    await hear(ear)


async def test_a_store_that_says_no_at_once_is_not_stuck(ear: Ear, notifier: Notifier, nursery: trio.Nursery) -> None:
    async def check() -> None:
        raise StoreUnavailable("cannot write: the disk is full")

    nursery.start_soon(feed, notifier, PATIENCE_S, check, lambda: "ready")

    assert (await hear(ear, 2))[1] == {"WATCHDOG": "1", "STATUS": "not ready: cannot write: the disk is full"}
