"""What gets on record, in order, also when the disk goes away for a while."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from sandboxd.a2a.model import Message, Part, TaskState
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.live.recorder import QUEUE_MAX_BYTES, Recorder
from sandboxd.live.verdict import Ending
from sandboxd.store.base import Entry
from sandboxd.tasks.events import Answered, Asked, Finished, Started, Submitted, Wrote
from sandboxd.tasks.machine import IllegalTransition
from sandboxd.tasks.view import TaskView, fold
from tests.live.stage import Stage, answer, comes_true

AT = datetime(2026, 1, 1, tzinfo=UTC)
FINISHED = Finished(AT, "m-end", "exit", None, "done", 0)


async def new_recorder(stage: Stage) -> Recorder:
    submitted = Submitted(AT, Message("m-1", "user", (Part("text", "go"),)))
    view = fold(TaskView("task-1", "context-1", "stage"), submitted)
    await stage.feed.create("tester", [Entry(submitted)], view)
    return Recorder(stage.feed, view)


def wrote(offset: int, data: bytes) -> Wrote:
    return Wrote(AT, "stdout", offset, len(data), first=offset == 0, last=False)


async def test_what_cannot_follow_changes_nothing(stage: Stage):
    recorder = await new_recorder(stage)
    recorder.record(Started(AT, {}))
    before = recorder.view

    with pytest.raises(IllegalTransition):
        recorder.record(Answered(AT, "p", Message("m-2", "user", ()), "tester"))

    assert recorder.view is before
    recorder.record(FINISHED)
    with pytest.raises(IllegalTransition):
        recorder.record(wrote(0, b"late"))
    await recorder.write()
    assert [type(stored.event) for stored in await stage.events("task-1")] == [Submitted, Started, Finished]


async def test_of_a_long_talk_only_what_is_not_written_is_held_in_memory(stage: Stage):
    recorder = await new_recorder(stage)
    recorder.record(Started(AT, {}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.write)
        for number in range(5):
            asked = Asked(AT, f"asked-{number}", PromptEnvelope(str(uuid.uuid4()), "Go on?", {}, AT), (), {})
            recorder.record(asked)
            said = Message(f"answer-{number}", "user", (Part("text", "y"),))
            ticket = recorder.record(Answered(AT, asked.envelope.prompt_id, said, "tester"))
            await ticket.fate.committed()
            assert recorder.view.history == ()
        recorder.record(FINISHED)

    kept = await stage.store.view("task-1")
    assert kept is not None
    assert [message.message_id for message in kept.history] == [
        "m-1",
        *(f"{who}-{number}" for number in range(5) for who in ("asked", "answer")),
    ]


async def test_while_the_store_is_down_nothing_is_lost_doubled_or_told(stage: Stage):
    recorder = await new_recorder(stage)
    stage.store.is_down = True
    heard: list[int] = []

    async def listen() -> None:
        async with stage.feed.subscribe("task-1", after=0) as events:
            async for stored in events:
                heard.append(stored.seq)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        nursery.start_soon(recorder.write)
        ticket = recorder.record(Started(AT, {}))
        for number in range(5):
            recorder.record(wrote(number, b"x"), b"x")
        await comes_true(lambda: stage.store.refused >= 2)
        assert heard == [1]
        with trio.move_on_after(0.05) as waiting:
            await ticket.fate.committed()
        assert waiting.cancelled_caught
        recorder.record(FINISHED)
        stage.store.is_down = False

    assert heard == [1, 2, 3, 4, 5, 6, 7, 8]
    assert await stage.output("task-1", "stdout") == b"xxxxx"


async def test_a_reader_waits_while_the_store_is_down_however_small_its_pieces_are(stage: Stage):
    recorder = await new_recorder(stage)
    stage.store.is_down = True
    recorder.record(Started(AT, {}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.write)
        for number in itertools.count():
            assert number < QUEUE_MAX_BYTES // 64, "the queue has no bound on events"
            recorder.record(wrote(number, b"x"), b"x")
            with trio.move_on_after(0) as waiting:
                await recorder.room()
            if waiting.cancelled_caught:
                break
        recorder.record(FINISHED)
        stage.store.is_down = False
    assert (await stage.output("task-1", "stdout")) == b"x" * (number + 1)


async def test_a_store_that_is_down_stops_neither_the_answer_nor_the_deadline(stage: Stage):
    task_id, run = await stage.start("read -r -p 'Proceed? [y/N] ' x; touch answered; exec yes", "bash", timeout_s=2)
    asked, _ = await stage.asked(task_id)
    stage.store.is_down = True
    accepted = answer(run(), asked.envelope.prompt_id, "y")
    await stage.appears("answered")
    process = run()._process
    with trio.fail_after(6):
        await process.wait()
    assert not run()._process.is_alive()
    assert await stage.state(task_id) is TaskState.INPUT_REQUIRED

    stage.store.is_down = False
    await accepted.fate.committed()
    ended = await stage.ended(task_id)

    assert ended.reason == "timeout"
    kinds = [type(stored.event) for stored in await stage.events(task_id)]
    assert kinds.count(Answered) == 1


async def test_a_store_that_is_down_does_not_keep_a_left_over_child_alive(stage: Stage):
    task_id, run = await stage.start(
        "(trap '' HUP; touch \"$PWD/up\"; exec yes) & while [ ! -e up ]; do sleep 0.01; done", "bash"
    )
    await stage.started(task_id)
    stage.store.is_down = True
    process = run()._process
    await comes_true(lambda: process.is_tree_gone)
    stage.store.is_down = False

    assert (await stage.ended(task_id)).reason == "exit"


async def test_a_run_that_ends_by_cancel_while_the_store_is_down_is_on_record_later(stage: Stage):
    task_id, run = await stage.start("sleep 30", "bash")
    await stage.started(task_id)
    stage.store.is_down = True
    run().end_nowait(Ending("canceled"))
    process = run()._process
    with trio.fail_after(20):
        await process.wait()
    stage.store.is_down = False

    assert (await stage.ended(task_id)).reason == "canceled"


@pytest.mark.parametrize("between", [0, 1], ids=["at once", "after other output"])
async def test_what_was_foreseen_gets_on_record_as_any_other_event(stage: Stage, between: int):
    recorder = await new_recorder(stage)
    asked = Asked(AT, "asked", PromptEnvelope(str(uuid.uuid4()), "Go on?", {}, AT), (), {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.write)
        await recorder.record(Started(AT, {})).fate.committed()
        before = recorder.view
        recorder.foresee(asked)
        assert recorder.view is before
        for number in range(between):
            recorder.record(wrote(number, b"x"), b"x")
        ticket = recorder.record(asked)
        await ticket.fate.committed()
        found = await stage.store.view("task-1")
        assert found is not None
        assert (found.seq, found.status, found.prompt) == (ticket.seq, ticket.view.status, ticket.view.prompt)
        assert [message.message_id for message in found.history] == ["m-1", "asked"]
        recorder.record(FINISHED)

    kept = [stored.event for stored in await stage.events("task-1")]
    assert [type(event) for event in kept] == [Submitted, Started, *[Wrote] * between, Asked, Finished]
    assert asked in kept
