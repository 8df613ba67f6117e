"""Being woken at the very moment, by one timer for all."""

from __future__ import annotations

import os

import trio
import trio.testing

from sandboxd.live.alarm import EARLY_S, Alarm


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_everybody_is_called_in_order_and_the_first_never_too_early():
    rung: list[tuple[str, bool]] = []
    done = trio.Event()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            alarm, began = Alarm(nursery), trio.current_time()

            def later() -> None:
                rung.append(("later", trio.current_time() >= began + 0.05 - EARLY_S))
                done.set()

            def sooner() -> None:
                rung.append(("sooner", trio.current_time() >= began + 0.02))

            alarm.set(later, began + 0.05)
            await trio.testing.wait_all_tasks_blocked()
            alarm.set(sooner, began + 0.02)
            await done.wait()

    assert rung == [("sooner", True), ("later", True)]


async def test_who_is_set_anew_is_called_once_and_who_is_cleared_is_not():
    rung: list[str] = []
    done = trio.Event()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            alarm, now = Alarm(nursery), trio.current_time()

            def moved() -> None:
                rung.append("moved")

            def cleared() -> None:
                rung.append("cleared")

            alarm.set(moved, now + 60)
            alarm.set(cleared, now + 0.01)
            for _ in range(1000):  # as many as a run may set in its life
                alarm.set(moved, now + 60)
            alarm.set(moved, now + 0.02)
            alarm.clear(cleared)
            alarm.set(done.set, now + 0.04)
            await done.wait()

    assert rung == ["moved"]


async def test_whoever_is_called_may_ask_to_be_called_again_and_a_moment_that_has_passed_is_now():
    calls = 0
    done = trio.Event()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            alarm = Alarm(nursery)

            def again() -> None:
                nonlocal calls
                calls += 1
                if calls < 3:
                    alarm.set(again, trio.current_time() - 1)
                else:
                    done.set()

            alarm.set(again, 0.0)
            await done.wait()

    assert calls == 3


async def test_whoever_is_called_early_with_another_and_asks_again_is_called_at_its_moment():
    rung: list[str] = []
    done = trio.Event()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            alarm, now = Alarm(nursery), trio.current_time()
            moment = now + 0.02 + EARLY_S / 2

            def exact() -> None:
                if trio.current_time() < moment:
                    alarm.set(exact, moment)
                else:
                    rung.append("exact")
                    done.set()

            alarm.set(lambda: rung.append("first"), now + 0.02)
            alarm.set(exact, moment)
            await done.wait()

    assert rung == ["first", "exact"]


async def test_an_alarm_that_wakes_nobody_holds_neither_task_nor_descriptor():
    before = descriptors()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            alarm = Alarm(nursery)
            for _ in range(3):
                alarm.set(print, trio.current_time() + 60)
                await trio.testing.wait_all_tasks_blocked()
                assert descriptors() == before + 1
                alarm.clear(print)
                alarm.clear(print)
                await trio.testing.wait_all_tasks_blocked()
                assert descriptors() == before
