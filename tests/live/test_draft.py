"""Does a question that was made ahead say when it was asked?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from sandboxd.detect.evidence import Evidence
from sandboxd.live.draft import AHEAD_S, EARLY_S, Drafts
from sandboxd.policy.model import PromptRules
from sandboxd.tasks.events import Asked
from tests.detect.bench import BLIND, LINE, Bench
from tests.store.story import NOON


class LoopClock:
    """Noon, when the loop's time began."""

    def now(self) -> datetime:
        return NOON + timedelta(seconds=trio.current_time())


@attrs.define
class Kernel:
    """Says that the line is read; and hears what is foreseen, as a recorder does."""

    evidence: Evidence = LINE
    foreseen: list[Asked] = attrs.field(factory=list)
    dropped: int = 0

    def look(self) -> Evidence:
        return self.evidence

    def foresee(self, asked: Asked) -> None:
        self.foreseen.append(asked)

    def unforesee(self) -> None:
        self.dropped += 1


@pytest.fixture
def terminal_fd() -> Iterator[int]:
    ends = os.openpty()
    yield ends[0]
    for fd in ends:
        os.close(fd)


@pytest.mark.parametrize(("late_s", "is_draft"), [(0.0, True), (0.001, True), (0.003, False), (5.0, False)])
async def test_a_draft_is_asked_at_its_moment_and_not_later(
    mock_clock: MockClock, terminal_fd: int, late_s: float, is_draft: bool
) -> None:
    bench, kernel = Bench(LINE).out("Your name: "), Kernel()
    look_at = bench.detector.next_deadline()
    assert look_at is not None
    drafts = Drafts(terminal_fd, PromptRules(timeout_s=60), LoopClock(), cast(Any, None), ends_at=900.0)
    mock_clock.jump(look_at - AHEAD_S)
    drafts.prepare(bench.detector, cast(Any, kernel), cast(Any, kernel), trio.current_time())
    mock_clock.jump(AHEAD_S + late_s)
    prompt = bench.wait(look_at).prompt()

    asked = drafts.asked(prompt, prompt.text, trio.current_time())

    assert (asked is kernel.foreseen[0]) is is_draft
    assert asked.at == NOON + timedelta(seconds=look_at + (0 if is_draft else late_s))
    assert asked.envelope.deadline == asked.at + timedelta(seconds=60)


async def test_a_draft_for_a_silence_that_did_not_last_is_thrown_away(mock_clock: MockClock, terminal_fd: int) -> None:
    bench, kernel = Bench(LINE).out("Your name: "), Kernel()
    look_at = bench.detector.next_deadline()
    assert look_at is not None
    drafts = Drafts(terminal_fd, PromptRules(), LoopClock(), cast(Any, None), ends_at=900.0)
    mock_clock.jump(look_at - AHEAD_S)
    drafts.prepare(bench.detector, cast(Any, kernel), cast(Any, kernel), trio.current_time())
    assert (len(kernel.foreseen), kernel.dropped) == (1, 0)
    bench.detector.feed(b"more", trio.current_time())
    drafts.prepare(bench.detector, cast(Any, kernel), cast(Any, kernel), trio.current_time())

    assert kernel.dropped == 1
    assert drafts.early_s == 0


@pytest.mark.parametrize("secrets", ["wait", "relay"])
async def test_what_the_policy_keeps_from_people_is_not_foreseen(mock_clock: MockClock, terminal_fd: int, secrets: Any) -> None:
    bench, kernel = Bench(BLIND).out("Password: "), Kernel(BLIND)
    look_at = bench.detector.next_deadline()
    assert look_at is not None
    drafts = Drafts(terminal_fd, PromptRules(secrets=secrets), LoopClock(), cast(Any, None), ends_at=900.0)
    mock_clock.jump(look_at - AHEAD_S)
    drafts.prepare(bench.detector, cast(Any, kernel), cast(Any, kernel), trio.current_time())

    assert len(kernel.foreseen) == (secrets == "relay")


class Held:
    """A tide that says how often it was held."""

    times = 0

    def hold(self) -> None:
        self.times += 1


@pytest.mark.parametrize(("early_s", "is_waited_out"), [(2 * EARLY_S, False), (EARLY_S / 2, True), (0.0, False)])
async def test_only_the_last_moment_of_a_draft_s_silence_is_waited_out(
    mock_clock: MockClock, terminal_fd: int, early_s: float, is_waited_out: bool
) -> None:
    bench, kernel, tide = Bench(LINE).out("Your name: "), Kernel(), Held()
    look_at = bench.detector.next_deadline()
    assert look_at is not None
    drafts = Drafts(terminal_fd, PromptRules(), LoopClock(), cast(Any, tide), ends_at=900.0)
    mock_clock.jump(look_at - AHEAD_S)
    assert drafts.wait_out(look_at - early_s) == look_at - early_s  # there is no draft yet
    drafts.prepare(bench.detector, cast(Any, kernel), cast(Any, kernel), trio.current_time())
    mock_clock.jump(AHEAD_S - early_s)
    began, now = time.perf_counter(), trio.current_time()

    assert drafts.wait_out(now) == (look_at if is_waited_out else now)
    assert tide.times == is_waited_out
    assert not is_waited_out or time.perf_counter() - began >= early_s / 2  # the clock of the loop stands still meanwhile
