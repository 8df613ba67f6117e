"""Output of many runs that gets on record at one tick."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from sandboxd.a2a.model import TaskState
from sandboxd.live import tide as tide_module
from sandboxd.live.tide import AT_ONCE, HOLD_MOST_S, TICK_S, Tide
from sandboxd.tasks.events import Wrote
from tests.live.stage import Stage, answer


async def test_everybody_s_output_is_flushed_once_and_in_time():
    flushed: list[int] = []
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            tide, began = Tide(nursery), trio.current_time()
            flushes = [lambda number=number: flushed.append(number) for number in range(3 * AT_ONCE)]
            for flush in flushes * 2:
                tide.join(flush)

    assert flushed == list(range(3 * AT_ONCE))
    assert trio.current_time() >= began + TICK_S


@pytest.mark.parametrize(("hold_s", "waits_s"), [(0.0, 0.0), (0.01, 0.01), (60.0, HOLD_MOST_S)])
async def test_what_is_told_now_goes_first_for_a_moment(monkeypatch: pytest.MonkeyPatch, hold_s: float, waits_s: float):
    monkeypatch.setattr(tide_module, "HOLD_S", hold_s)
    flushed: list[float] = []
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            tide = Tide(nursery)

            def flush() -> None:
                flushed.append(trio.current_time())
                if len(flushed) == AT_ONCE:
                    tide.hold()

            for _ in range(AT_ONCE + 1):
                tide.join(partial(flush))

    assert len(flushed) == AT_ONCE + 1
    assert flushed[-1] - flushed[0] >= waits_s


async def test_what_comes_after_a_tick_waits_for_the_next():
    flushed: list[str] = []
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            tide = Tide(nursery)

            def first() -> None:
                flushed.append("first")
                if len(flushed) == 1:
                    tide.join(first)

            tide.join(first)

    assert flushed == ["first", "first"]


async def test_output_is_on_record_while_the_program_goes_on(stage: Stage):
    task_id, _ = await stage.start("echo one; read -r never", "bash")

    written = await stage.until(task_id, lambda event: isinstance(event, Wrote))
    assert written.chunk.startswith(b"one")


async def test_a_run_whose_output_cannot_be_put_on_record_ends_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    script = "printf 'Go on? '; read -r a; echo two; read -r b"
    broken, run = await stage.start(script, "bash")
    whole, _ = await stage.start(script, "bash")
    asked, _ = await stage.asked(broken)
    await stage.asked(whole)

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(run(), "_flush", fail)
    answer(run(), asked.envelope.prompt_id, "y")

    assert (await stage.ended(broken)).reason == "internal"
    assert await stage.state(whole) is TaskState.INPUT_REQUIRED
