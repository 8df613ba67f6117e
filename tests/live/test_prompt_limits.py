"""What a policy's own limits on prompts do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from sandboxd.a2a.model import TaskState
from sandboxd.errors import PromptNotOpen
from sandboxd.tasks.events import Answered, Asked, Closed
from tests.live.stage import answer, open_stage

ASKS_TWICE = """
import os, time
print("First? [y/N] ", end="", flush=True)
while not os.path.exists("go on"): time.sleep(0.01)
print("\\nSecond? [y/N] ", end="", flush=True)
print("got", input())
"""
ASKS_FOR_EVER = """
import itertools
for number in itertools.count():
    input(f"Number {number}? [y/N] ")
"""


async def test_an_expired_prompt_takes_no_answer_and_the_next_question_has_a_new_id(tmp_path):
    async with open_stage(tmp_path, more='[prompts]\ntimeout = "1s"', asks_kernel=False) as stage:
        task_id, run = await stage.start(ASKS_TWICE)
        first, seq = await stage.asked(task_id)
        closed = await stage.until(task_id, lambda event: isinstance(event, Closed), after=seq)
        assert isinstance(closed.event, Closed)
        assert closed.event.closure == "expired"
        assert await stage.state(task_id) is TaskState.INPUT_REQUIRED
        view = await stage.store.view(task_id)
        assert view is not None and view.prompt is not None
        assert not view.prompt.is_open
        with pytest.raises(PromptNotOpen):
            answer(run(), first.envelope.prompt_id, "y")

        (stage.root / "go on").touch()
        second, _ = await stage.asked(task_id, after=closed.seq)
        assert second.envelope.prompt_id != first.envelope.prompt_id
        answer(run(), second.envelope.prompt_id, "y")
        ended = await stage.ended(task_id)

        assert ended.exit_code == 0
        record = await stage.store.prompt(first.envelope.prompt_id)
        assert record is not None
        assert record.state == "expired"
        answers = [stored.event for stored in await stage.events(task_id) if isinstance(stored.event, Answered)]
        assert [event.prompt_id for event in answers] == [second.envelope.prompt_id]


async def test_an_expired_prompt_fails_the_task_where_the_policy_says_so(tmp_path):
    async with open_stage(tmp_path, more='[prompts]\ntimeout = "1s"\non-expiry = "fail"', asks_kernel=False) as stage:
        task_id, _ = await stage.start(ASKS_TWICE)
        ended = await stage.ended(task_id)

        assert (ended.reason, ended.fail_kind) == ("prompt-expired", "infrastructure")
        kinds = [type(stored.event) for stored in await stage.events(task_id)]
        assert kinds.index(Closed) < len(kinds) - 1


async def test_the_prompts_deadline_is_the_commands_when_that_comes_first(tmp_path):
    async with open_stage(tmp_path, more='[prompts]\ntimeout = "60s"', asks_kernel=False) as stage:
        task_id, _ = await stage.start(ASKS_TWICE, timeout_s=1)
        asked, _ = await stage.asked(task_id)
        ended = await stage.ended(task_id)

        assert ended.reason == "timeout"
        assert asked.envelope.deadline is not None
        assert abs((ended.at - asked.envelope.deadline).total_seconds()) < 2


@attrs.define
class Jumping:
    """A clock that is set."""

    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.mark.parametrize("ahead", [timedelta(days=-3), timedelta(minutes=-5), timedelta(days=3)], ids=str)
@pytest.mark.parametrize("more", ["", '[prompts]\ntimeout = "20s"'], ids=["the command's", "the question's own"])
async def test_a_deadline_is_told_by_the_clock_as_it_is_when_the_question_is_asked(tmp_path, more, ahead):
    clock = Jumping()
    async with open_stage(tmp_path, more=more, asks_kernel=False, clock=clock) as stage:
        task_id, run = await stage.start(ASKS_TWICE)
        first, seq = await stage.asked(task_id)
        clock.ahead = ahead
        (stage.root / "go on").touch()
        second, _ = await stage.asked(task_id, after=seq)
        told, now = second.envelope.deadline, clock.now()
        answer(run(), second.envelope.prompt_id, "y")
        ended = await stage.ended(task_id)

        assert told is not None
        assert timedelta() < told - now <= timedelta(seconds=30)
        assert ended.exit_code == 0
        assert first.envelope.prompt_id != second.envelope.prompt_id


async def test_a_program_that_asks_more_than_its_policy_allows_is_ended(tmp_path):
    async with open_stage(tmp_path, more="[prompts]\nmax = 2") as stage:
        task_id, run = await stage.start(ASKS_FOR_EVER)
        seq = 0
        for _ in range(2):
            asked, seq = await stage.asked(task_id, after=seq)
            answer(run(), asked.envelope.prompt_id, "y")
        ended = await stage.ended(task_id)

        assert (ended.reason, ended.fail_kind) == ("prompt-limit", "infrastructure")
        assert sum(isinstance(stored.event, Asked) for stored in await stage.events(task_id)) == 2
