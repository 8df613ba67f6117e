"""What does the desk do where there is nothing left to send, or nobody who sends?"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import trio
import trio.testing

from sandboxd.a2a.model import PushConfig
from sandboxd.courier.desk import Desk
from sandboxd.courier.link import Link
from sandboxd.live.clock import SystemClock
from sandboxd.operations.host import Host, Instance
from sandboxd.operations.outbox import Outbox
from sandboxd.store.base import PushEntry
from sandboxd.store.feed import Feed
from sandboxd.store.sqlite import SqliteStore, open_store
from sandboxd.targets import Targets
from tests.store.story import NOON, Story


@asynccontextmanager
async def desk_at(store: SqliteStore):
    outbox = Outbox(Targets())
    instances = {"box": Instance("box", "/workspace", (), "none")}
    nothing = cast(Any, None)
    host = Host(instances, "box", store, Feed(store), nothing, nothing, SystemClock(), nothing, outbox=outbox)
    async with trio.open_nursery() as nursery:
        desk = Desk(host, Link(), outbox.targets, tries=3)
        nursery.start_soon(desk.run)
        yield desk
        nursery.cancel_scope.cancel()


def entry(url: str = "https://example.com/") -> PushEntry:
    return PushEntry("task-1", "box", "alice", (), PushConfig(url, "c"), 0)


async def until(condition):
    with trio.fail_after(20):
        while not (found := await condition()):  # noqa: ASYNC110 - the store has no bell
            await trio.sleep(0.01)
    return found


async def test_events_that_were_pruned_before_they_were_sent_are_a_dead_letter(tmp_path):
    async with open_store(tmp_path / "store.sqlite") as store:
        story = await Story(store).begin()
        await story.finish()
        await store.put_push(entry(), max_per_task=16)
        assert await store.prune_events(ended_before=NOON + timedelta(days=1000)) == 1

        async with desk_at(store) as desk:
            (dead,) = await until(store.dead_pushes)

            assert (dead.seq, dead.tries) == (story.view.seq, 0)
            assert "no longer on record" in dead.why
            assert await until(lambda: _nothing_live(store, desk))


async def _nothing_live(store: SqliteStore, desk: Desk) -> bool:
    return not await store.live_pushes() and "lanes=0" in repr(desk)


async def test_a_target_that_the_config_no_longer_allows_is_a_dead_letter_at_once(tmp_path):
    async with open_store(tmp_path / "store.sqlite") as store:
        await Story(store).begin()
        await store.put_push(entry("http://127.0.0.1:1/"), max_per_task=16)

        async with desk_at(store):
            dead = await until(store.dead_pushes)

    assert dead[-1].tries == 1
    assert "127.0.0.1" in dead[-1].why


async def test_without_a_courier_everything_waits_and_nothing_is_counted_as_a_try(tmp_path):
    async with open_store(tmp_path / "store.sqlite") as store:
        await Story(store).begin()
        kept = await store.put_push(entry(), max_per_task=16)

        async with desk_at(store) as desk:
            await trio.testing.wait_all_tasks_blocked(0.05)
            (waiting,) = await store.pushes("task-1")
            assert (waiting.cursor, waiting.tries) == (0, 0)
            desk.dropped_nowait([kept.number])
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert "lanes=0" in repr(desk)
