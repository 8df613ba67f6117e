"""Does a store find tasks again, and forget them in time? (Contract suite, third part)"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import attrs

from sandboxd.a2a.model import TaskState
from sandboxd.store.base import TaskQuery
from sandboxd.tasks.view import TaskView, last_change, task_of
from tests.store.story import NOON, Story


async def test_unfinished_names_every_task_that_has_not_ended(store):
    working = await Story(store, "working").begin()
    asking = await Story(store, "asking").begin()
    await asking.ask()
    done = await Story(store, "done").begin()
    await done.finish()

    found = [task.view for task in await store.unfinished()]
    assert {view.task_id: view for view in found} == {"working": working.view, "asking": asking.view}


async def _ten(store) -> list[Story]:
    stories = []
    for number in range(10):
        story = Story(store, f"task-{number}", context_id=f"context-{number % 2}")
        story.now += timedelta(seconds=number // 2)  # two of each have the same status time
        await story.begin()
        if number >= 6:
            await story.finish()
        stories.append(story)
    other = Story(store, "elsewhere", instance="other")
    await other.begin()
    return stories


async def test_a_list_is_newest_first_and_its_pages_hold_each_task_once(store):
    await _ten(store)
    seen: list[TaskView] = []
    query = TaskQuery("box", limit=3)
    while True:
        page = await store.tasks(query)
        assert page.total == 10
        seen += page.views
        if not page.has_more:
            break
        query = attrs.evolve(query, after=(last_change(seen[-1]), seen[-1].task_id))

    times = [last_change(view) for view in seen]
    assert sorted({view.task_id for view in seen}) == [f"task-{number}" for number in range(10)]
    assert len(seen) == 10
    assert times == sorted(times, reverse=True)


async def test_a_list_can_be_of_one_principal_and_a_task_knows_its_creator(store):
    await _ten(store)
    (view, *_) = (await store.tasks(TaskQuery("box", limit=1))).views
    creator = await store.owner(view.task_id)

    assert creator
    assert (await store.tasks(TaskQuery("box", principal=creator))).total == 10
    assert (await store.tasks(TaskQuery("box", principal="token:nobody"))).total == 0
    assert await store.owner("none") is None


async def test_the_total_follows_what_becomes_of_tasks(store):
    async def totals() -> dict[str, int]:
        queries = {state.value: TaskQuery("box", principal="alice", state=state) for state in TaskState}
        found = {name: (await store.tasks(query)).total for name, query in queries.items()}
        return {name: count for name, count in found.items() if count}

    first, second = Story(store, "first"), Story(store, "second")
    await first.begin()
    await second.tell([second.submitted()])
    begun = await totals()
    await first.ask()
    asked = await totals()
    await first.finish()
    ended = await totals()
    await store.prune(ended_before=NOON + timedelta(days=1))

    assert begun == {"submitted": 1, "working": 1}
    assert asked == {"submitted": 1, "input-required": 1}
    assert ended == {"submitted": 1, "completed": 1}
    assert await totals() == {"submitted": 1}
    assert (await store.tasks(TaskQuery("box"))).total == 1


async def test_what_stands_is_counted_as_it_would_be_seen(store):
    begun, asking, expired = [await Story(store, name).begin() for name in ("begun", "asking", "expired")]
    await asking.ask()
    await expired.tell([expired.closed(await expired.ask(), "expired")])
    await (await Story(store, "done").begin()).finish()

    seen = [task.view for task in await store.unfinished()]

    assert [story.view.state for story in (begun, asking, expired)] == [view.state for view in seen]
    assert (await store.standing()).tasks == Counter(view.state for view in seen)
    assert (await store.standing()).prompts == sum(view.prompt is not None and view.prompt.is_open for view in seen) == 1


async def test_a_list_reads_no_more_of_a_conversation_than_it_shows(store):
    story = await Story(store, "talk").begin()
    for number in range(3):
        await story.answer(await story.ask(), f"answer-{number}")

    for length in (None, 0, 2, 100):
        (view,) = (await store.tasks(TaskQuery("box", history_length=length))).views
        assert task_of(view, history_length=length) == task_of(story.view, history_length=length)
        assert len(view.history) == min(7, 7 if length is None else length)


async def test_a_cursor_in_milliseconds_as_on_the_wire_loses_no_row(store):
    await _ten(store)
    seen, query = [], TaskQuery("box", limit=1)
    while (page := await store.tasks(query)).views:
        (view,) = page.views
        seen.append(view.task_id)
        moment = last_change(view)
        query = attrs.evolve(query, after=(moment.replace(microsecond=moment.microsecond // 1000 * 1000), view.task_id))

    assert sorted(seen) == [f"task-{number}" for number in range(10)]


async def test_a_list_can_be_narrowed_by_context_state_and_time(store):
    stories = await _ten(store)
    since = last_change(stories[4].view)

    async def ids(**filters) -> tuple[set[str], int]:
        page = await store.tasks(TaskQuery("box", **filters))
        return {view.task_id for view in page.views}, page.total

    assert await ids(context_id="context-1") == ({"task-1", "task-3", "task-5", "task-7", "task-9"}, 5)
    assert await ids(state=TaskState.WORKING) == ({f"task-{number}" for number in range(6)}, 6)
    assert await ids(since=since) == ({f"task-{number}" for number in range(4, 10)}, 6)
    assert await ids(state=TaskState.COMPLETED, context_id="context-0", since=since) == ({"task-6", "task-8"}, 2)
    assert (await store.tasks(TaskQuery("other"))).total == 1
    assert (await store.tasks(TaskQuery("nowhere"))).views == ()


async def test_a_listed_task_is_as_it_stands(store):
    story = await Story(store).begin()
    await story.write(b"some output")

    assert (await store.tasks(TaskQuery("box"))).views == (story.view,)


async def test_prune_takes_ended_tasks_alone_with_all_that_is_theirs(store):
    old, running = Story(store, "old"), Story(store, "running")
    await old.begin()
    await old.write(b"bytes")
    prompt_id = await old.ask()
    await old.finish()
    await running.begin()
    recent = Story(store, "recent")
    recent.now += timedelta(days=1)
    await recent.begin()
    await recent.finish()

    assert await store.prune(ended_before=NOON + timedelta(hours=1)) == 1
    assert await store.view("old") is None
    assert list(await store.events("old", after=0)) == []
    assert await store.read("old", "terminal", 0, 9) == b""
    assert await store.prompt(prompt_id) is None
    assert await store.view("running") == running.view
    assert await store.view("recent") == recent.view


async def test_prune_goes_no_further_than_its_limit(store):
    for number in range(5):
        story = await Story(store, f"task-{number}").begin()
        await story.finish()

    assert await store.prune(ended_before=NOON + timedelta(days=1), limit=3) == 3
    assert await store.prune(ended_before=NOON + timedelta(days=1), limit=3) == 2
    assert (await store.tasks(TaskQuery("box"))).total == 0


async def test_a_cursor_that_nobody_gave_out_finds_nothing_strange(store):
    await _ten(store)

    page = await store.tasks(TaskQuery("box", after=(NOON - timedelta(days=1), "\ud800")))

    assert page.views == ()
    assert page.total == 10
