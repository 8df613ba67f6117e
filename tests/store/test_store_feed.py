"""Does every subscriber hear everything, once, in order, and does nobody slow hold up the rest?"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from sandboxd.store.base import Entry, Store, StoredEvent, StoreUnavailable
from sandboxd.store.feed import Feed, Subscription
from sandboxd.tasks.view import fold
from tests.live.stage import comes_true
from tests.store.story import Story


@pytest.fixture
def feed(store: Store) -> Feed:
    return Feed(store, buffer_events=8, buffer_bytes=10_000)


async def take(subscription: AsyncIterator[StoredEvent], count: int) -> list[StoredEvent]:
    with trio.fail_after(10):
        return [await anext(subscription) for _ in range(count)]


async def rest(subscription: AsyncIterator[StoredEvent]) -> list[StoredEvent]:
    with trio.fail_after(10):
        return [event async for event in subscription]


def seqs(events: list[StoredEvent]) -> list[int]:
    return [event.seq for event in events]


async def test_the_past_comes_first_then_what_happens_until_the_end(feed):
    story = await Story(feed).begin()
    async with feed.subscribe("task-1", after=0) as subscription:
        past = await take(subscription, 2)
        await story.write(b"live")
        await story.finish()
        live = await rest(subscription)

    assert [event.event for event in past + live] == story.events
    assert seqs(past + live) == [1, 2, 3, 4]
    assert live[0].chunk == b"live"


async def test_a_subscriber_that_waits_hears_at_once(feed):
    story = await Story(feed).begin()
    heard: list[StoredEvent] = []

    async def listen(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        async with feed.subscribe("task-1", after=2) as subscription:
            task_status.started()
            heard.extend(await rest(subscription))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                await nursery.start(listen)
            await trio.testing.wait_all_tasks_blocked()
            await story.write(b"x")
            await story.finish()

    assert sorted(seqs(heard)) == [3, 3, 3, 4, 4, 4]


async def test_nothing_is_heard_before_it_is_on_disk(feed):
    story = await Story(feed).begin()
    async with feed.subscribe("task-1", after=2) as subscription, trio.open_nursery() as nursery:
        nursery.start_soon(story.write, b"x")
        (event,) = await take(subscription, 1)
        view = await feed.store.view("task-1")

    assert view is not None
    assert view.seq >= event.seq == 3


async def test_a_reader_joins_anywhere(feed):
    story = await Story(feed).begin()
    for _ in range(5):
        await story.write(b"x")
    await story.finish()
    for after in range(9):
        async with feed.subscribe("task-1", after=after) as subscription:
            assert seqs(await rest(subscription)) == list(range(after + 1, 9))


async def test_a_reader_that_has_heard_the_end_is_done_at_once(feed):
    story = await Story(feed).begin()
    await story.finish()
    for after in (story.seq, story.seq + 5):
        async with feed.subscribe("task-1", after=after) as subscription:
            assert await rest(subscription) == []


async def test_a_reader_ahead_of_a_living_task_ends_with_it(feed):
    story = await Story(feed).begin()
    async with feed.subscribe("task-1", after=99) as subscription, trio.open_nursery() as nursery:

        async def hear() -> None:
            assert await rest(subscription) == []

        nursery.start_soon(hear)
        await trio.testing.wait_all_tasks_blocked()
        await story.write(b"x")
        await story.finish()


async def test_a_task_that_is_not_on_record_ends_at_once(feed):
    async with feed.subscribe("nobody", after=0) as subscription:
        assert await rest(subscription) == []


async def test_a_reader_that_never_reads_holds_up_nobody_and_still_hears_all(feed):
    story = await Story(feed).begin()
    async with feed.subscribe("task-1", after=0) as slow:
        await take(slow, 1)
        with trio.fail_after(10):
            for number in range(300):
                await story.write(b"%03d" % number)
            await story.finish()
        kept = len(slow._live)
        heard = await rest(slow)

    assert kept <= 8
    assert seqs(heard) == list(range(2, 304))
    assert b"".join(event.chunk for event in heard) == b"".join(b"%03d" % number for number in range(300))


async def test_a_buffer_is_bounded_in_bytes_too(feed):
    story = await Story(feed).begin()
    async with feed.subscribe("task-1", after=2) as slow:
        with trio.move_on_after(0):
            await anext(slow)
        for _ in range(5):
            await story.write(bytes(4000))
        held = sum(len(event.chunk) for event in slow._live)
        await story.write(bytes(50_000))
        await story.finish()

        assert held <= 10_000
        assert seqs(await rest(slow)) == list(range(3, 10))


@pytest.mark.parametrize("seed", range(8))
async def test_readers_of_any_pace_hear_every_event_once_and_in_order(feed, seed):
    chance = random.Random(seed)
    story = await Story(feed).begin()
    heard: dict[int, list[int]] = {}

    async def listen(number: int, after: int) -> None:
        async with feed.subscribe("task-1", after=after) as subscription:
            async for event in subscription:
                heard[number].append(event.seq)
                for _ in range(chance.choice((0, 0, 1, 30))):
                    await trio.lowlevel.checkpoint()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for step in range(80):
                if step % 10 == 0:
                    heard[step] = [chance.randint(0, story.seq)]
                    nursery.start_soon(listen, step, heard[step][0])
                await story.tell([story.wrote(b"x") for _ in range(1)])
                for _ in range(chance.choice((0, 0, 3))):
                    await trio.lowlevel.checkpoint()
            await story.finish()

    assert heard == {number: list(range(got[0], story.seq + 1)) for number, got in heard.items()}


async def test_events_that_were_published_out_of_order_are_handed_out_in_order(store):
    # Two appends in one commit wake their callers in any order.
    story = await Story(store).begin()
    await story.write(b"3")
    await story.write(b"4")
    subscription = Subscription(store, "task-1", 2, 8, 1000)
    stored = await store.events("task-1", after=2)
    subscription.offer(stored[1])
    first = await take(subscription, 1)
    subscription.offer(stored[0])
    second = await take(subscription, 1)

    assert [first, second] == [[stored[0]], [stored[1]]]


async def test_closing_the_feed_ends_every_subscription_and_all_that_follow(feed):
    await Story(feed).begin()
    async with feed.subscribe("task-1", after=0) as unread, feed.subscribe("task-1", after=2) as waiting:
        async with trio.open_nursery() as nursery:

            async def hear() -> None:
                assert await rest(waiting) == []

            nursery.start_soon(hear)
            await trio.testing.wait_all_tasks_blocked()
            feed.close()

        assert await rest(unread) == []
    async with feed.subscribe("task-1", after=0) as late:
        assert await rest(late) == []


async def test_a_caller_cancelled_in_its_append_knows_that_it_was_kept_and_others_hear_of_it(feed):
    story = await Story(feed).begin()
    returned: list[int | str] = []
    async with feed.subscribe("task-1", after=2) as subscription:
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                await story.write(b"kept")
                returned.append(story.seq)
                await trio.lowlevel.checkpoint()
                returned.append("went on")

            nursery.start_soon(write)
            for _ in range(2):  # the append has begun
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        (event,) = await take(subscription, 1)

    assert returned == [3]
    assert (event.seq, event.chunk) == (3, b"kept")


async def test_a_caller_cancelled_before_its_append_writes_nothing(feed):
    story = await Story(feed).begin()
    before = story.view
    with trio.CancelScope() as scope:
        scope.cancel()
        await story.write(b"never")

    assert await feed.store.view("task-1") == before


async def test_a_write_that_failed_is_not_published(feed):
    story = await Story(feed).begin()
    entry = story.wrote(b"lost")
    async with feed.subscribe("task-1", after=2) as subscription:
        with trio.move_on_after(0):
            await anext(subscription)
        await feed.store.close()
        with pytest.raises(StoreUnavailable):
            await feed.append([entry], fold(story.view, entry.event), after=2)

        assert not subscription._live


async def test_a_reader_hears_that_the_store_cannot_be_read(feed):
    await Story(feed).begin()
    async with feed.subscribe("task-1", after=0) as subscription:
        await feed.store.close()
        with pytest.raises(StoreUnavailable, match="cannot read the store"):
            await anext(subscription)


async def test_a_reader_cancelled_in_its_wait_loses_nothing(feed):
    story = await Story(feed).begin()
    async with feed.subscribe("task-1", after=0) as subscription:
        await take(subscription, 2)
        with trio.move_on_after(0.01):
            await anext(subscription)
        await story.write(b"x")
        await story.finish()

        assert seqs(await rest(subscription)) == [3, 4]


async def test_who_has_left_is_forgotten(feed):
    await Story(feed).begin()
    async with feed.subscribe("task-1", after=0):
        pass

    assert feed._listeners == {}


async def test_who_waits_hears_what_to_expect_and_is_handed_only_what_happened(feed):
    story = await Story(feed).begin()
    asked = story.asked()
    expected: list[StoredEvent] = []
    async with feed.subscribe("task-1", after=2) as waiting, feed.subscribe("task-1", after=0) as behind:
        waiting.on_expected = behind.on_expected = expected.append
        with trio.move_on_after(0.05):
            await anext(waiting)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take, waiting, 1)
                await trio.testing.wait_all_tasks_blocked()
                feed.expect(Entry(asked), fold(story.view, asked))
                await trio.testing.wait_all_tasks_blocked()
                assert [stored.event for stored in expected] == [asked]
                await story.write(b"something else")
        assert [stored.seq for stored in await take(behind, 3)] == [1, 2, 3]

    assert [stored.event for stored in expected] == [asked]


@pytest.mark.parametrize("is_sent", [True, False])
async def test_who_waits_is_told_on_the_spot_and_handed_the_rest_in_order(feed, is_sent):
    story = await Story(feed).begin()
    told: list[int] = []

    def tell(stored: StoredEvent) -> bool:
        told.append(stored.seq)
        return is_sent

    handed: list[StoredEvent] = []
    async with feed.subscribe("task-1", after=2) as waiting:
        waiting.on_told = tell

        async def read() -> None:
            handed.extend(await take(waiting, 2 if is_sent else 3))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await comes_true(lambda: waiting._is_waiting)
                for piece in (b"one", b"two", b"three"):
                    waiting.on_told = tell if piece == b"one" else never
                    await story.write(piece)

    assert told == [3]
    assert [stored.seq for stored in handed] == ([4, 5] if is_sent else [3, 4, 5])


def never(_: StoredEvent) -> bool:
    return False
