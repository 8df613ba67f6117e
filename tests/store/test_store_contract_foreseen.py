"""Is a question that is kept ahead of its time shown by nothing, lost by nothing, and waited for once it was told?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from sandboxd.a2a.model import TaskState
from sandboxd.store.base import Conflict, Entry, Store, StoreUnavailable, TaskQuery, Unfinished
from sandboxd.tasks.events import Asked
from sandboxd.tasks.view import TaskView, fold
from tests.store.conftest import Opener
from tests.store.story import Story


async def foresee(story: Story) -> tuple[Asked, TaskView]:
    """Have the store keep the story's next question."""
    asked = story.asked()
    view = fold(story.view, asked)
    await story.store.foresee(story.store.prepared(Entry(asked), view, after=story.seq), view, after=story.seq)
    return asked, view


def reads_of(store: Store, asked: Asked, before: TaskView) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every read that tells whether the question was asked."""
    return {
        "view": lambda: store.view("task-1"),
        "view_at": lambda: store.view_at("task-1", before.seq + 1),
        "events": lambda: store.events("task-1", after=before.seq),
        "tasks": lambda: store.tasks(TaskQuery("box", state=TaskState.INPUT_REQUIRED)),
        "prompt": lambda: store.prompt(asked.envelope.prompt_id),
        "history": lambda: store.history("task-1", len(before.history) + 1),
        "standing": store.standing,
    }


async def test_nothing_shows_what_is_foreseen(store: Store):
    story = await Story(store).begin()
    asked, _ = await foresee(story)

    found = {name: await read() for name, read in reads_of(store, asked, story.view).items()}

    assert found["view"] == story.view
    assert found["view_at"] is None
    assert found["events"] == ()
    assert found["tasks"].views == ()
    assert found["prompt"] is None
    assert found["history"] == story.view.history
    assert found["standing"].prompts == 0


async def test_whoever_resolves_a_task_finds_what_was_foreseen_also_in_a_store_opened_anew(opener: Opener, path: Path):
    async with opener(path) as store:
        story = await Story(store).begin()
        asked, _ = await foresee(story)
        await Story(store, "other").begin()
    async with opener(path) as store:
        found = {task.view.task_id: task.foreseen for task in await store.unfinished()}
        assert await store.unfinished("task-1") == (Unfinished(story.view, asked),)

    assert found == {"task-1": asked, "other": None}


@pytest.mark.parametrize("then", ["asked", "wrote", "forgotten", "another", "finished"])
async def test_what_was_foreseen_says_nothing_any_more_when_the_task_moves_on(store: Store, then: str):
    story, expected = await Story(store).begin(), None
    asked, _ = await foresee(story)
    match then:
        case "asked":
            await story.tell([Entry(asked)])
        case "wrote":
            await story.write(b"more")
        case "forgotten":
            await store.unforesee("task-1", after=story.seq)
        case "another":
            expected, _ = await foresee(story)
        case "finished":
            await story.finish()

    assert [task.foreseen for task in await store.unfinished()] == ([] if then == "finished" else [expected])
    assert await store.view("task-1") == story.view


async def test_to_forget_what_was_foreseen_earlier_leaves_what_is_foreseen_now(store: Store):
    story = await Story(store).begin()
    await foresee(story)
    earlier = story.seq
    await story.write(b"more")
    asked, _ = await foresee(story)
    await store.unforesee("task-1", after=earlier)

    assert [task.foreseen for task in await store.unfinished()] == [asked]


async def test_nothing_is_foreseen_of_a_task_that_stands_elsewhere(store: Store):
    story = await Story(store).begin()
    asked = story.asked()
    view, after = fold(story.view, asked), story.seq
    await story.write(b"more")

    with pytest.raises(Conflict, match="cannot foresee"):
        await store.foresee(store.prepared(Entry(asked), view, after=after), view, after=after)


async def test_what_was_told_is_waited_for_by_whoever_reads_that_task_or_tasks(store: Store):
    story, other = await Story(store).begin(), await Story(store, "other").begin()
    asked, _ = await foresee(story)
    found: dict[str, Any] = {}

    async def read(name: str, call: Callable[[], Awaitable[Any]]) -> None:
        found[name] = await call()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            store.promise("task-1")
            for name, call in reads_of(store, asked, story.view).items():
                nursery.start_soon(read, name, call)
            await trio.testing.wait_all_tasks_blocked()
            assert found == {}
            assert await store.view("other") == other.view
            await story.tell([Entry(asked)])

    assert found["view"] == found["view_at"] == found["tasks"].views[0] == story.view
    assert [stored.event for stored in found["events"]] == [asked]
    assert found["prompt"].state == "open"
    assert len(found["history"]) == len(story.view.history)
    assert found["standing"].prompts == 1


async def test_while_what_was_told_cannot_be_appended_its_task_is_not_shown(store: Store):
    story, other = await Story(store).begin(), await Story(store, "other").begin()
    asked, view = await foresee(story)
    reads = reads_of(store, asked, story.view)
    refused = []
    store.promise("task-1")
    with pytest.raises(Conflict):
        await store.append([Entry(asked)], fold(view, asked), after=story.seq + 1)
    for name, call in reads.items():
        try:
            await call()
        except StoreUnavailable as error:
            assert "cannot read all of what was told already" in str(error)
            refused.append(name)

    assert set(refused) == set(reads) - {"standing"}
    assert await store.view("other") == other.view
    await story.tell([Entry(asked)])
    assert await store.view("task-1") == story.view
