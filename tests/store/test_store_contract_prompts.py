"""Does a store know what became of every prompt and message? (Contract suite, second part)"""

from __future__ import annotations

import attrs
import pytest

from sandboxd.store.base import Conflict
from tests.store.story import Story


async def test_a_prompt_is_open_from_its_question_to_its_answer(store):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    opened = await store.prompt(prompt_id)
    await story.answer(prompt_id, "answer-7")
    answered = await store.prompt(prompt_id)

    assert opened is not None
    assert (opened.task_id, opened.instance, opened.state, opened.closed_at) == ("task-1", "box", "open", None)
    assert opened.asked_at == story.events[-2].at
    assert answered == attrs.evolve(
        opened, state="answered", closed_at=story.events[-1].at, message_id="answer-7", principal="bob"
    )


async def test_a_second_answer_to_one_prompt_is_a_conflict(store):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    await story.answer(prompt_id)
    await story.ask()
    with pytest.raises(Conflict, match="not open"):
        await story.answer(prompt_id, "answer-2")


@pytest.mark.parametrize("closure", ["withdrawn", "expired"])
async def test_a_closed_prompt_says_how_it_closed(store, closure):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    await story.tell([story.closed(prompt_id, closure)])
    record = await store.prompt(prompt_id)

    assert record is not None
    assert (record.state, record.closed_at, record.message_id) == (closure, story.events[-1].at, None)


async def test_an_expired_prompt_takes_no_answer(store):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    await story.tell([story.closed(prompt_id, "expired")])
    with pytest.raises(Conflict, match="not open"):
        await story.answer(prompt_id)


async def test_an_expired_prompt_that_is_withdrawn_later_stays_expired(store):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    await story.tell([story.closed(prompt_id, "expired")])
    await story.tell([story.closed(prompt_id, "withdrawn")])
    record = await store.prompt(prompt_id)

    assert record is not None
    assert record.state == "expired"


async def test_a_prompt_that_is_open_when_the_task_ends_is_ended(store):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    await story.finish()
    record = await store.prompt(prompt_id)

    assert record is not None
    assert (record.state, record.closed_at) == ("ended", story.events[-1].at)


async def test_a_prompt_id_is_never_used_again(store):
    story = await Story(store).begin()
    prompt_id = await story.ask()
    await story.answer(prompt_id)
    other = await Story(store, "task-2").begin()
    with pytest.raises(Conflict, match="used before"):
        await other.ask(prompt_id)

    assert await store.view("task-2") == other.view
