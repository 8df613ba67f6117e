"""Does a store keep what `Store` promises? Every store that `conftest.STORES` names must pass all of it."""

from __future__ import annotations

import attrs
import pytest
import trio

from sandboxd.store.base import Conflict, Entry, StoreUnavailable, TaskQuery
from sandboxd.tasks.events import Wrote
from sandboxd.tasks.view import TaskView, fold
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


async def test_tasks_that_live_at_once_are_kept_as_if_each_had_come_alone(store):
    outputs: dict[str, tuple[bytes, bytes]] = {}
    stories = [Story(store, f"task-{number}") for number in range(20)]

    async def live(number: int, story: Story) -> None:
        await story.begin()
        outputs[story.view.task_id] = small, large = bytes([number]) * 10, bytes([100 + number]) * (20_000 + 5_000 * number)
        await story.tell([story.wrote(small, "stdout"), story.wrote(large, "stderr")])
        await story.answer(await story.ask(), f"answer-{number}")
        await story.write(large, "stdout")
        await story.finish()

    async with trio.open_nursery() as nursery:
        for number, story in enumerate(stories):
            nursery.start_soon(live, number, story)

    for story in stories:
        task_id, (small, large) = story.view.task_id, outputs[story.view.task_id]
        assert await store.view(task_id) == story.view
        assert [stored.event for stored in await store.events(task_id, after=0)][:2] == story.events[:2]
        assert await store.read(task_id, "stdout", 0, 10**9) == small + large
        assert await store.read(task_id, "stderr", 0, 10**9) == large


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


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "a\x00b", "", "ü" * 5000], ids=ascii)
async def test_any_text_a_client_may_send_is_an_unknown_id_or_a_kept_one(store, odd):
    assert await store.view(odd) is None
    assert await store.prompt(odd) is None
    assert await store.read(odd, odd, 0, 9) == b""

    story = Story(store, context_id=odd)
    await story.tell([story.submitted(message_id=odd)])
    assert (await store.tasks(TaskQuery("box", context_id=odd))).views == (story.view,)


async def test_a_number_beyond_any_integer_on_disk_is_beyond_the_end(store):
    story = await Story(store).begin()
    await story.write(b"x")

    assert list(await store.events("task-1", after=10**30)) == []
    assert await store.view_at("task-1", 10**30) is None
    assert await store.read("task-1", "terminal", 0, 10**30) == b"x"
    assert await store.read("task-1", "terminal", 10**30, 10**31) == b""


async def test_an_unknown_task_has_no_view_no_events_and_no_bytes(store):
    assert await store.view("nobody") is None
    assert await store.view_at("nobody", 1) is None
    assert list(await store.events("nobody", after=0)) == []
    assert await store.read("nobody", "terminal", 0, 10) == b""
    assert await store.prompt("nobody") is None


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


async def test_a_long_chatty_task_is_replayed_in_time_that_grows_with_its_length_alone(store):
    story = await Story(store).begin()
    for _ in range(20):
        entries, view = [], story.view
        for _ in range(250):
            entries.append(story.wrote(b"a line of output\n"))
            story.view = fold(story.view, entries[-1].event)
        await store.append(entries, story.view, after=view.seq)
    with trio.fail_after(12):  # looking at earlier output anew for each event took 17 s for 10,000
        after = count = 0
        while events := await store.events("task-1", after=after):
            count += len(events)
            after = events[-1].seq

    assert count == 5002


async def test_a_cancelled_caller_loses_no_write(store):
    story = await Story(store).begin()
    entries = [story.wrote(b"kept")]
    view = fold(story.view, entries[0].event)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: store.append(entries, view, after=story.seq))
        for _ in range(2):  # of the two tasks that can run, both have run: the append is accepted and waits for the disk
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    with trio.fail_after(20):
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
