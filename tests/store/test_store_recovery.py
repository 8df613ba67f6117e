"""Are tasks that a dead daemon left behind resolved truthfully?"""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from sandboxd.a2a.model import TaskState
from sandboxd.store.base import Entry, Store
from sandboxd.store.feed import Feed
from sandboxd.store.recovery import recover
from sandboxd.tasks.events import Finished, Wrote
from sandboxd.tasks.view import fold
from tests.store.story import NOON, Story

LATER = NOON + timedelta(hours=1)


@pytest.fixture
def feed(store: Store) -> Feed:
    return Feed(store)


async def recovered(feed: Feed) -> int:
    count = itertools.count()
    return await recover(feed, LATER, lambda: f"recovery-{next(count)}")


async def test_every_unfinished_task_fails_for_reasons_of_infrastructure(feed):
    submitted = Story(feed, "submitted")
    await submitted.tell([submitted.submitted()])
    await Story(feed, "working").begin()
    asking = await Story(feed, "asking").begin()
    await asking.ask()

    assert await recovered(feed) == 3
    for task_id, words in (
        ("submitted", "start was on record"),
        ("working", "was running"),
        ("asking", "waited for an answer"),
    ):
        view = await feed.store.view(task_id)
        assert view is not None
        assert view.state is TaskState.FAILED
        assert view.status is not None
        assert view.status.timestamp == LATER
        assert view.status.outcome is not None
        assert (view.status.outcome["reason"], view.status.outcome["fail_kind"]) == ("daemon-died", "infrastructure")
        assert words in view.status.outcome["summary"]


async def test_an_open_prompt_is_ended(feed):
    story = await Story(feed).begin()
    prompt_id = await story.ask()
    await recovered(feed)
    record = await feed.store.prompt(prompt_id)

    assert record is not None
    assert (record.state, record.closed_at, record.message_id) == ("ended", LATER, None)


async def test_streams_of_output_end_before_the_task_does(feed):
    story = await Story(feed).begin()
    await story.write(b"whole", "stdout", last=True)
    await story.write(b"half", "stderr")
    await recovered(feed)
    new = await feed.store.events("task-1", after=story.seq)
    view = await feed.store.view("task-1")

    assert [stored.seq for stored in new] == [5, 6]
    assert new[0].event == Wrote(LATER, "stderr", 4, 0, first=False, last=True)
    assert isinstance(new[1].event, Finished)
    assert view is not None
    assert all(artifact.is_complete for artifact in view.artifacts)
    assert await feed.store.read("task-1", "stderr", 0, 9) == b"half"


async def test_tasks_that_had_ended_are_left_alone(feed):
    story = await Story(feed).begin()
    await story.finish()

    assert await recovered(feed) == 0
    assert await feed.store.view("task-1") == story.view


async def test_a_second_recovery_finds_nothing_to_do(feed):
    await Story(feed).begin()
    await recovered(feed)

    assert await recovered(feed) == 0


async def test_a_question_that_was_foreseen_is_put_on_record_first(feed):
    story = await Story(feed).begin()
    await story.write(b"half", "stderr")
    asked = story.asked()
    view = fold(story.view, asked)
    await feed.store.foresee(feed.store.prepared(Entry(asked), view, after=3), view, after=3)
    await recovered(feed)
    new, record = await feed.store.events("task-1", after=3), await feed.store.prompt(asked.envelope.prompt_id)

    assert [stored.event for stored in new[:2]] == [asked, Wrote(LATER, "stderr", 4, 0, first=False, last=True)]
    assert "waited for an answer" in new[2].event.summary
    assert len(new) == 3
    assert record is not None
    assert record.state == "ended"
    assert await recovered(feed) == 0
