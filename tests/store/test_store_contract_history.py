"""Is a history kept whole, whoever holds how much of it? (Contract suite, sixth part)"""

from __future__ import annotations

import attrs
import pytest

from sandboxd.store.base import Conflict, Entry
from sandboxd.tasks.view import fold, without_history
from tests.store.story import Story


async def _told(store, rounds: int = 3) -> Story:
    story = await Story(store).begin()
    for number in range(rounds):
        await story.answer(await story.ask(), f"answer-{number}")
    return story


async def test_a_writer_that_lets_go_of_what_is_on_record_leaves_the_history_whole(store):
    story = await Story(store).begin()
    whole = story.view
    for number in range(3):
        story.view = without_history(story.view)
        asked = story.asked()
        await story.tell([Entry(asked)])
        whole = fold(whole, asked)
        await story.answer(asked.envelope.prompt_id, f"answer-{number}")
        whole = fold(whole, story.events[-1])

    assert (story.view.earlier, len(story.view.history)) == (5, 2)
    assert await store.view("task-1") == whole
    then = await store.view_at("task-1", whole.seq - 1)
    assert then is not None
    assert then.history == whole.history[:-1]


async def test_the_beginning_of_a_history_can_be_read(store):
    story = await _told(store)

    assert tuple(await store.history("task-1", 3)) == story.view.history[:3]
    assert tuple(await store.history("task-1", 99)) == story.view.history
    assert list(await store.history("task-1", 0)) == []
    assert list(await store.history("unknown", 3)) == []


async def test_a_writer_that_holds_less_than_is_missing_on_record_is_a_conflict(store):
    story = await _told(store, rounds=1)
    story.view = attrs.evolve(without_history(story.view), earlier=9)

    with pytest.raises(Conflict, match="6 messages are missing"):
        await story.ask()
