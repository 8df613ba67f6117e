"""Does a store keep what `Store` promises? Every store that `conftest.STORES` names must pass all of it."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest
import trio
from sandboxd.a2a.model import TaskState
from sandboxd.store.base import Conflict, Entry, StoreUnavailable, TaskQuery
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.view import TaskView, fold, last_change
from tests.store.story import NOON, Story


async def test_what_was_created_is_found(store):
    story = Story(store)
    await story.tell([story.submitted()])

    assert await store.view("task-1") == story.view
    assert [(stored.seq, stored.event) for stored in await store.events("task-1", after=0)] == [(1, story.events[0])]


async def test_every_kind_of_event_is_read_back_equal(store):
    story = await Story(store).begin()
    await story.write(b"one")
    await story.answer(await story.ask())
    prompt_id = await story.ask()
    await story.tell([story.closed(prompt_id, "expired")])
    await story.tell([story.closed(prompt_id, "withdrawn")])
    await story.write(b"", last=True)
    await story.finish()
    refused = Story(store, "task-2")
    await refused.tell([refused.submitted()])
    await refused.tell([refused.rejected()])

    assert [stored.event for stored in await store.events("task-1", after=0)] == story.events
    assert [stored.event for stored in await store.events("task-2", after=0)] == refused.events
    assert await store.view("task-1") == story.view
    assert await store.view("task-2") == refused.view


async def test_sequence_numbers_grow_by_one_over_several_appends(store):
    story = await Story(store).begin()
    await story.tell([story.wrote(b"a", "stdout"), story.wrote(b"b", "stderr")])
    await story.finish()

    assert [stored.seq for stored in await store.events("task-1", after=0)] == [1, 2, 3, 4, 5]


async def test_what_returned_is_there_after_reopening(opener, path):
    async with opener(path) as store:
        story = await Story(store).begin()
        await story.write(b"kept")
        prompt_id = await story.ask()
    async with opener(path) as store:
        record = await store.prompt(prompt_id)

        assert await store.view("task-1") == story.view
        assert await store.read("task-1", "terminal", 0, 99) == b"kept"
        assert record is not None
        assert record.state == "open"


async def test_an_append_to_an_unknown_task_is_a_conflict(store):
    story = Story(store)
    story.view = fold(story.view, story.submitted().event)
    with pytest.raises(Conflict, match="not on record"):
        await story.tell([story.started()])


async def test_creating_a_task_twice_is_a_conflict(store):
    await Story(store).begin()
    again = Story(store)
    with pytest.raises(Conflict):
        await again.tell([again.submitted()])


async def test_an_append_that_builds_on_the_past_is_a_conflict_and_changes_nothing(store):
    story = await Story(store).begin()
    other = Story(store)
    other.view, other.now = story.view, story.now
    await story.write(b"first")
    with pytest.raises(Conflict, match="stands at 3"):
        await other.write(b"second")

    assert await store.view("task-1") == story.view
    assert await store.read("task-1", "terminal", 0, 99) == b"first"


async def test_an_append_after_the_end_is_a_conflict(store):
    story = await Story(store).begin()
    await story.finish()
    late = attrs.evolve(story.view, seq=story.seq + 1)
    with pytest.raises(Conflict, match="has ended"):
        await store.append([story.wrote(b"late")], late, after=story.seq)


async def test_one_conflict_among_many_appends_fails_alone(store):
    stories = [await Story(store, f"task-{number}").begin() for number in range(20)]
    results: dict[int, str] = {}

    async def append(number: int) -> None:
        story = stories[number]
        if number % 5 == 0:
            story.view = attrs.evolve(story.view, seq=story.seq + 7)
        try:
            await story.write(b"x")
            results[number] = "kept"
        except Conflict:
            results[number] = "conflict"

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(append, number)

    assert results == {number: "conflict" if number % 5 == 0 else "kept" for number in range(20)}


async def test_two_writers_of_one_task_never_both_win(store):
    story = await Story(store).begin()
    view = story.view
    wins = []

    async def race(name: bytes) -> None:
        rival = Story(store)
        rival.view, rival.now = view, story.now
        try:
            await rival.write(name)
            wins.append(name)
        except Conflict:
            pass

    async with trio.open_nursery() as nursery:
        for name in (b"a", b"b", b"c"):
            nursery.start_soon(race, name)

    assert len(wins) == 1
    assert await store.read("task-1", "terminal", 0, 9) == wins[0]


async def test_entries_that_do_not_lead_to_the_view_are_a_mistake_of_the_caller(store):
    story = await Story(store).begin()
    with pytest.raises(ValueError, match="lead to"):
        await store.append([story.wrote(b"x")], story.view, after=story.seq)


async def test_output_that_is_not_as_long_as_its_event_says_is_a_mistake_of_the_caller(store):
    story = await Story(store).begin()
    entry = Entry(Wrote(NOON, "terminal", 0, 5, True, False), b"four")
    with pytest.raises(ValueError, match="5 bytes"):
        await story.tell([entry])


async def test_an_unknown_task_has_no_view_no_events_and_no_bytes(store):
    assert await store.view("nobody") is None
    assert await store.view_at("nobody", 1) is None
    assert list(await store.events("nobody", after=0)) == []
    assert await store.read("nobody", "terminal", 0, 10) == b""
    assert await store.prompt("nobody") is None
    assert not await store.message_seen("nobody", "message-1")


async def test_the_past_can_be_seen_at_every_number(store):
    story = await Story(store).begin()
    await story.write(b"out")
    await story.answer(await story.ask())
    await story.finish()
    folded = TaskView("task-1", "context", "box")
    for seq, event in enumerate(story.events, start=1):
        folded = fold(folded, event)
        assert await store.view_at("task-1", seq) == folded

    assert await store.view_at("task-1", 0) is None
    assert await store.view_at("task-1", len(story.events) + 1) is None


async def test_events_come_after_a_number_and_up_to_a_limit(store):
    story = await Story(store).begin()
    for _ in range(5):
        await story.write(b"x")

    assert [stored.seq for stored in await store.events("task-1", after=2, limit=3)] == [3, 4, 5]
    assert list(await store.events("task-1", after=story.seq)) == []


async def test_events_bring_their_bytes(store):
    story = await Story(store).begin()
    await story.tell([story.wrote(b"to out", "stdout"), story.wrote(b"to err", "stderr")])
    await story.write(b" more", "stdout")
    await story.write(b"", "stdout", last=True)

    chunks = [stored.chunk for stored in await store.events("task-1", after=0)]
    assert chunks == [b"", b"", b"to out", b"to err", b" more", b""]


async def test_much_output_comes_in_several_answers_without_a_gap(store):
    story = await Story(store).begin()
    pieces = [bytes([65 + number]) * 1_500_000 for number in range(6)]
    for piece in pieces:
        await story.write(piece)
    seqs: list[int] = []
    chunks: list[bytes] = []
    while found := await store.events("task-1", after=seqs[-1] if seqs else 0, limit=100):
        assert len(found) < 8
        seqs += [stored.seq for stored in found]
        chunks += [stored.chunk for stored in found]

    assert seqs == list(range(1, 9))
    assert chunks[2:] == pieces


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 10), (0, 200_000), (65_535, 65_537), (65_536, 65_536), (70_000, 131_073), (199_990, 300_000)]
)
async def test_any_range_of_an_artifact_can_be_read(store, start, stop):
    whole = bytes(number % 251 for number in range(200_000))
    story = await Story(store).begin()
    for begin in (0, 1, 100_000):
        end = {0: 1, 1: 100_000, 100_000: 200_000}[begin]
        await story.write(whole[begin:end])

    assert await store.read("task-1", "terminal", start, stop) == whole[start:stop]


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


async def test_a_message_is_seen_once_it_is_recorded_on_that_task(store):
    story = await Story(store).begin()
    await story.answer(await story.ask(), "answer-1")

    assert await store.message_seen("task-1", "message-1")
    assert await store.message_seen("task-1", "answer-1")
    assert not await store.message_seen("task-1", "message-2")
    assert not await store.message_seen("task-2", "message-1")


async def test_unfinished_names_every_task_that_has_not_ended(store):
    working = await Story(store, "working").begin()
    asking = await Story(store, "asking").begin()
    await asking.ask()
    done = await Story(store, "done").begin()
    await done.finish()

    assert {view.task_id: view for view in await store.unfinished()} == {"working": working.view, "asking": asking.view}


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


async def test_a_cancelled_caller_loses_no_write(store):
    story = await Story(store).begin()
    entries = [story.wrote(b"kept")]
    view = fold(story.view, entries[0].event)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: store.append(entries, view, after=story.seq))
        for _ in range(2):  # of the two tasks that can run, both have run: the append is accepted and waits for the disk
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    with trio.fail_after(5):
        while await store.view("task-1") == story.view:  # the write goes on behind its caller's back
            await trio.lowlevel.checkpoint()
    assert await store.view("task-1") == view
    assert await store.read("task-1", "terminal", 0, 9) == b"kept"


async def test_a_store_that_can_write_passes_its_check(store):
    await store.check()
    await store.check()


async def test_a_closed_store_refuses_and_can_be_closed_again(store):
    story = await Story(store).begin()
    await store.close()
    await store.close()

    with pytest.raises(StoreUnavailable, match="cannot write the store: it is closed"):
        await story.write(b"late")
    with pytest.raises(StoreUnavailable, match="cannot read the store: it is closed"):
        await store.view("task-1")


async def test_closing_keeps_what_was_accepted(opener, path):
    async with opener(path) as store:
        stories = [await Story(store, f"task-{number}").begin() for number in range(30)]
        async with trio.open_nursery() as nursery:
            for story in stories:
                nursery.start_soon(story.write, b"accepted")
            for _ in range(2):  # as above
                await trio.lowlevel.checkpoint()
            await store.close()
    async with opener(path) as store:
        for story in stories:
            assert await store.view(story.view.task_id) == story.view
