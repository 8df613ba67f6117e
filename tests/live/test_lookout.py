"""Does the alarm look in the place of a task that waits, and is a fault that it meets that task's own?"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
import trio.testing

from sandboxd.live.alarm import Alarm
from sandboxd.live.lookout import Lookout
from tests.live.stage import comes_true


@attrs.define
class Looks:
    """What is to be looked at once, `at` some moment; who looked."""

    at: float = float("inf")
    by: list[str] = attrs.field(factory=list)
    fault: Exception | None = None

    def look(self) -> bool:
        if trio.current_time() < self.at:
            return False
        self.at = float("inf")
        self.by.append(trio.lowlevel.current_task().name)
        if self.fault is not None:
            raise self.fault
        return False

    def next_at(self) -> float:
        return self.at


async def looked(looks: Looks, goes_on: Callable[[], bool], *, is_kept: bool = True) -> None:
    async with trio.open_nursery() as alarms:
        lookout = Lookout(Alarm(alarms), looks.look, looks.next_at)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                if is_kept:
                    nursery.start_soon(lookout.keep, goes_on, name="its own")
                await trio.testing.wait_all_tasks_blocked()
                looks.at = trio.current_time() + 0.02
                lookout.bring_forward(looks.at)
                if is_kept:
                    await comes_true(lambda: bool(looks.by))
                else:
                    await comes_true(lambda: trio.current_time() > looks.at + 0.05)
                nursery.cancel_scope.cancel()
        lookout.end()


async def test_it_is_looked_at_its_moment_without_a_turn_of_the_task():
    looks = Looks()

    await looked(looks, lambda: True)

    assert len(looks.by) == 1
    assert "Alarm._run" in looks.by[0]


async def test_a_fault_of_the_look_ends_the_task_and_not_the_alarm():
    looks = Looks(fault=ValueError("its own"))

    with pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        await looked(looks, lambda: True)


async def test_a_fault_of_the_look_is_told_also_where_it_cut_the_wait_short():
    async with trio.open_nursery() as alarms:
        cut, at = trio.CancelScope(), trio.current_time() + 0.02

        def look() -> bool:
            if trio.current_time() < at:
                return False
            cut.cancel()
            raise ValueError("its own")

        lookout = Lookout(Alarm(alarms), look, lambda: at)
        with trio.fail_after(10), pytest.raises(ValueError, match="its own"), cut:
            await lookout.keep(lambda: True)
        lookout.end()


async def test_nobody_looks_where_the_task_has_ended():
    looks = Looks()

    await looked(looks, lambda: True, is_kept=False)

    assert looks.by == []
