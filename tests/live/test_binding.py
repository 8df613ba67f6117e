"""One use of one prompt: when does a live binding open, and what closes it for good?"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from sandboxd.detect.detector import Prompt
from sandboxd.errors import PromptNotOpen
from sandboxd.hitl.answer import AnswerForm
from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.live.binding import Binding, BindingState
from sandboxd.live.verdict import Ending
from sandboxd.tasks.events import Answered, Asked, Closed, Started
from tests.live.stage import Stage, answer, comes_true

WAITS = """
import os, select, sys, time
print("Proceed? [y/N] ", end="", flush=True)
while not os.path.exists("now"): select.select([0], [], [], 0.05)
{then}
time.sleep(30)
"""


def binding() -> Binding:
    envelope = PromptEnvelope("p", "Proceed?", {}, datetime(2026, 1, 1, tzinfo=UTC))
    return Binding(envelope, Prompt("Proceed?", AnswerForm(), "rule", {}), 0.0, None)


def test_it_is_open_until_it_is_claimed_and_again_when_nothing_was_typed():
    one = binding()
    one.claim()
    assert one.state is BindingState.CLAIMED
    one.settle(typed=False)
    assert one.is_open


def test_it_is_used_once():
    one = binding()
    one.claim()
    with pytest.raises(AssertionError):
        one.claim()
    one.settle(typed=True)
    one.close()
    assert one.state is BindingState.ANSWERED
    with pytest.raises(AssertionError):
        one.claim()


def test_a_closed_one_stays_closed():
    one = binding()
    one.close()
    assert not one.is_open
    with pytest.raises(AssertionError):
        one.claim()


@pytest.mark.parametrize(
    ("then", "ending", "timeout_s"),
    [
        ("sys.exit(0)", None, 30),
        ("os.kill(os.getpid(), 9)", None, 30),
        ("print('on my way')", None, 30),
        ("", Ending("canceled"), 30),
        ("", Ending("daemon-stopped"), 30),
        ("", None, 1),
    ],
    ids=["exit", "signal", "withdrawn", "cancel", "daemon stop", "deadline"],
)
async def test_whatever_ends_the_wait_closes_it_and_no_answer_is_typed_after(stage: Stage, then, ending, timeout_s):
    task_id, run = await stage.start(WAITS.format(then=then), timeout_s=timeout_s)
    asked, seq = await stage.asked(task_id)
    living = run()
    (stage.root / "now").touch()
    if ending:
        living.end_nowait(ending)
        with pytest.raises(PromptNotOpen):  # at once, however long the ladder takes
            answer(living, asked.envelope.prompt_id, "y")
    elif "on my way" in then:
        await stage.until(task_id, lambda event: isinstance(event, Closed), after=seq)
    else:
        await comes_true(lambda: not living._process.is_alive())

    with pytest.raises(PromptNotOpen):
        answer(living, asked.envelope.prompt_id, "y")
    living.end_nowait(Ending("canceled"))
    await stage.ended(task_id)
    with pytest.raises(PromptNotOpen):
        answer(living, asked.envelope.prompt_id, "y")

    events = [stored.event for stored in await stage.events(task_id)]
    assert not any(isinstance(event, Answered) for event in events)
    assert sum(isinstance(event, Asked) for event in events) == 1
    assert b"] y" not in await stage.output(task_id)


async def test_the_policy_and_its_digest_are_on_record_with_the_start(stage: Stage):
    task_id, _ = await stage.start("exit 0", "bash")
    stored = await stage.until(task_id, lambda event: isinstance(event, Started))
    assert isinstance(stored.event, Started)

    policy = (stage.root.parent / "policies" / "bash.toml").read_bytes()
    assert stored.event.facts["policy"] == "bash"
    assert stored.event.facts["policy_digest"] == f"sha256:{hashlib.sha256(policy).hexdigest()}"
