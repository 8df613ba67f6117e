"""Does a store keep who is to be told, how far they were told, and what never got through?"""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from sandboxd.a2a.model import PushConfig
from sandboxd.store.base import Conflict, DeadPush, Entry, PushEntry, TooManyPushes
from sandboxd.tasks.events import Answered
from tests.store.story import NOON, Story, user_message

CONFIG = PushConfig("https://example.com/", "c", "token", "Bearer", "credentials", "secret", frozenset({"status"}), "dialect")


def entry(config_id: str = "c", principal: str = "alice", cursor: int = -1, task_id: str = "task-1") -> PushEntry:
    return PushEntry(task_id, "box", principal, ("urn:x",), attrs.evolve(CONFIG, id=config_id), cursor)


async def put(store, made: PushEntry, most: int = 16) -> PushEntry:
    return await store.put_push(made, max_per_task=most)


async def test_a_config_is_read_back_equal_after_reopening(opener, path):
    async with opener(path) as store:
        story = await Story(store).begin()
        kept = await put(store, entry())
        told_all = await put(store, entry("all", cursor=0))
    async with opener(path) as store:
        assert list(await store.pushes("task-1")) == [kept, told_all]
        assert list(await store.live_pushes()) == [kept, told_all]
    assert (kept.cursor, told_all.cursor) == (story.view.seq, 0)
    assert kept == attrs.evolve(entry(), number=kept.number, cursor=kept.cursor)


async def test_one_of_the_same_id_of_the_same_principal_is_replaced_where_it_stands(store):
    await Story(store).begin()
    first = await put(store, entry(cursor=0))
    others = await put(store, entry(principal="bob"))
    second = await put(store, entry())

    assert second.number != first.number
    assert second.cursor == 0
    assert list(await store.pushes("task-1")) == [others, second]
    assert await store.advance_push(first.number, 1, got_through=True) is False


async def test_a_task_has_no_more_than_the_cap(store):
    await Story(store).begin()
    await put(store, entry("1"), most=2)
    await put(store, entry("2"), most=2)
    with pytest.raises(TooManyPushes):
        await put(store, entry("3"), most=2)
    await put(store, entry("2"), most=2)


async def test_a_config_needs_its_task(store):
    with pytest.raises(Conflict):
        await put(store, entry(task_id="nowhere"))


async def test_a_config_lives_until_it_was_told_of_the_end(store):
    story = await Story(store).begin()
    kept = await put(store, entry())
    await story.finish()
    assert [live.number for live in await store.live_pushes()] == [kept.number]

    assert await store.advance_push(kept.number, story.view.seq, got_through=True)
    late = await put(store, entry("late"))

    assert await store.live_pushes() == ()
    assert [found.number for found in await store.pushes("task-1")] == [kept.number, late.number]


async def test_tries_are_kept_until_it_gets_through(store):
    await Story(store).begin()
    kept = await put(store, entry(cursor=0))
    assert await store.fail_push(kept.number, tries=3, next_at=NOON)
    (found,) = await store.pushes("task-1")
    assert (found.tries, found.next_at, found.cursor) == (3, NOON, 0)

    await store.advance_push(kept.number, 1, got_through=True)
    (found,) = await store.pushes("task-1")
    assert (found.tries, found.cursor) == (0, 1)


async def test_a_dead_letter_is_passed_by_and_listed_until_its_task_goes(store):
    story = await Story(store).begin()
    kept = await put(store, entry(cursor=0))
    letters = [DeadPush("task-1", "c", "alice", "https://example.com/", seq, NOON, 12, "why") for seq in (1, 2)]
    for letter in letters:
        assert await store.bury_push(kept.number, letter)
    (found,) = await store.pushes("task-1")
    assert (found.cursor, found.is_given_up) == (2, True)
    listed = list(await store.dead_pushes())
    assert [attrs.evolve(one, number=0) for one in listed] == letters[::-1]
    assert list(await store.dead_pushes(limit=1)) == listed[:1]
    await store.advance_push(kept.number, 2, got_through=True)
    assert (await store.pushes("task-1"))[0].is_given_up is False

    await story.finish()
    await store.prune(ended_before=NOON + timedelta(days=1000))

    assert await store.dead_pushes() == ()
    assert await store.pushes("task-1") == ()
    assert await store.bury_push(kept.number, letters[0]) is False
    assert await store.fail_push(kept.number, tries=1, next_at=NOON) is False


async def test_a_dropped_config_is_gone(store):
    await Story(store).begin()
    kept = await put(store, entry())
    await store.drop_pushes([kept.number, 999])

    assert await store.pushes("task-1") == ()


async def test_the_configs_of_principals_who_are_gone_go_with_them(store):
    await Story(store).begin()
    alice, bob, carol = [await put(store, entry(principal=name)) for name in ("alice", "bob", "carol")]

    assert list(await store.drop_pushes_of({"alice", "carol", "nobody"})) == [alice, carol]
    assert list(await store.pushes("task-1")) == [bob]
    assert list(await store.drop_pushes_of(())) == []


async def test_a_dead_letter_is_found_by_its_number_tried_again_and_forgotten(store):
    await Story(store).begin()
    kept = await put(store, entry(cursor=0))
    letter = DeadPush("task-1", "c", "alice", "https://example.com/", 1, NOON, 12, "why")
    await store.bury_push(kept.number, letter)
    (dead,) = await store.dead_pushes()
    later = NOON + timedelta(hours=1)

    assert await store.dead_push(dead.number) == dead
    await store.retry_dead(dead.number, at=later, why="again")
    assert await store.dead_push(dead.number) == attrs.evolve(dead, at=later, tries=13, why="again")
    await store.drop_dead(dead.number)
    assert await store.dead_push(dead.number) is None
    assert await store.dead_pushes() == ()


async def test_a_config_that_comes_with_a_message_is_on_record_with_its_event_or_not_at_all(store):
    story = Story(store)
    await story.tell([attrs.evolve(story.submitted(), push=entry("first"))])
    await story.tell([story.started()])
    prompt_id = await story.ask()
    answered = Entry(Answered(NOON, prompt_id, user_message("answer-1", "y"), "bob"), push=entry("second"))
    await story.tell([answered])
    with pytest.raises(Conflict):
        await store.append([attrs.evolve(answered, push=entry("third"))], attrs.evolve(story.view, seq=5), after=4)

    first, second = await store.pushes("task-1")
    assert (first.config.id, first.cursor) == ("first", 0)
    assert (second.config.id, second.cursor) == ("second", story.view.seq)
    assert list(await store.live_pushes()) == [first, second]
