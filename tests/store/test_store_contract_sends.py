"""What does every store remember of messages that were sent?"""

from __future__ import annotations

from datetime import timedelta

from sandboxd.store.base import SendKey, SendRecord, Store, Told
from tests.store.story import NOON, Story

KEY = SendKey("token:cli", "box", "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b")
TOLD = Told("rest 1.0", 400, (("Content-Type", "application/json"),), b'{"error":{}}')
TTL_S = 60.0


async def reserve(store: Store, key: SendKey = KEY, digest: str = "d1", after_s: float = 0, most: int = 100):
    return await store.reserve(key, digest, now=NOON + timedelta(seconds=after_s), ttl_s=TTL_S, max_entries=most)


async def test_a_message_is_new_once(store: Store) -> None:
    assert await reserve(store) is None
    assert await reserve(store, digest="d2") == SendRecord("d1")


async def test_a_message_belongs_to_its_principal_and_instance(store: Store) -> None:
    await reserve(store)

    assert await reserve(store, SendKey("token:other", KEY.instance, KEY.message_id)) is None
    assert await reserve(store, SendKey(KEY.principal, "other", KEY.message_id)) is None


async def test_a_message_is_forgotten_after_its_time(store: Store) -> None:
    await reserve(store)

    assert await reserve(store, after_s=TTL_S - 0.001) == SendRecord("d1")
    assert await reserve(store, after_s=TTL_S, digest="d2") is None
    assert await reserve(store, after_s=TTL_S + 1) == SendRecord("d2")


async def test_a_refusal_is_kept_once(store: Store) -> None:
    await reserve(store)

    await store.settle(KEY, TOLD)
    await store.settle(KEY, Told("rpc", 200, (), b"another"))

    assert await reserve(store) == SendRecord("d1", told=TOLD)


async def test_the_oldest_go_when_there_are_too_many(store: Store) -> None:
    keys = [SendKey("p", "box", f"{number:08x}-6b3d-4c58-9a55-3c1d2e4f5a6b") for number in range(8)]
    for key in keys:
        await reserve(store, key, most=5)

    assert [await reserve(store, key, digest="again", most=100) is None for key in keys] == [True] * 3 + [False] * 5


async def test_old_ones_are_swept_in_pieces(store: Store) -> None:
    for number in range(5):
        await reserve(store, SendKey("p", "box", f"{number:08x}-6b3d-4c58-9a55-3c1d2e4f5a6b"))
    await reserve(store, after_s=10)

    moment = NOON + timedelta(seconds=5)
    assert [await store.forget_sends(before=moment, limit=3) for _ in range(3)] == [3, 2, 0]
    assert await reserve(store) == SendRecord("d1")


async def test_a_message_and_the_task_that_it_made_are_on_record_together(store: Store) -> None:
    story = Story(store)
    sent = SendKey("alice", "box", "message-1")
    await reserve(store, sent)

    await story.begin()

    assert await reserve(store, sent) == SendRecord("d1", "task-1", 1)
    await store.settle(sent, TOLD)
    assert await reserve(store, sent) == SendRecord("d1", "task-1", 1)


async def test_a_message_and_the_prompt_that_it_answered_are_on_record_together(store: Store) -> None:
    story = await Story(store).begin()
    prompt_id = await story.ask()
    sent = SendKey("bob", "box", "answer-1")
    await reserve(store, sent)

    await story.answer(prompt_id)

    assert await reserve(store, sent) == SendRecord("d1", "task-1", story.seq)


async def test_what_nobody_asked_to_remember_is_not_remembered(store: Store) -> None:
    await Story(store).begin()

    assert await reserve(store, SendKey("alice", "box", "message-1")) is None
