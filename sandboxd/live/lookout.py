"""Who looks at what a run may ask, and when?

A task that waits for whatever comes; and at the moment that was named for the next look the alarm itself, while that task
waits: a round of a busy loop until it is the task's turn takes milliseconds, and a client hears of a question that much later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from sandboxd.live.alarm import Alarm

_NEVER: Final = float("inf")


class Lookout:
    """One run's. `look`: does what is to be done now, and says whether there may be more. `next_at`: when there is next."""

    def __init__(self, alarm: Alarm, look: Callable[[], bool], next_at: Callable[[], float]) -> None:
        self._alarm = alarm
        self._look = look
        self._next_at = next_at
        self._alarm_at = _NEVER
        self._woken = trio.Event()
        self._goes_on: Callable[[], bool] = lambda: False  # while the task waits: whether there is anything to look at
        self._fault: Exception | None = None  # met by the alarm, which serves all runs: it is this run's own

    async def keep(self, goes_on: Callable[[], bool]) -> None:
        """Look whenever there may be something to do, while `goes_on` says so."""
        while goes_on():
            if self._look():
                continue
            self.set_alarm()
            self._goes_on = goes_on
            try:
                await self._woken.wait()
            finally:
                self._goes_on = lambda: False
                if self._fault is not None:  # also where the wait was cut short, perhaps by that very look
                    raise self._fault

    def wake(self) -> None:
        """Something has changed."""
        self._woken.set()
        self._woken = trio.Event()

    def set_alarm(self) -> None:
        """It is looked at the next moment that is named, and no more at the one before."""
        self._alarm_at = self._next_at()
        if self._alarm_at < _NEVER:
            self._alarm.set(self._ring, self._alarm_at)
        else:
            self._alarm.clear(self._ring)

    def bring_forward(self, moment: float) -> None:
        """There is something to do then. Output mostly puts looks off: an alarm for each read is a fifth of a flood's work."""
        if moment < self._alarm_at:
            self.set_alarm()

    def end(self) -> None:
        """No alarm any more; the task sees for itself."""
        self._alarm_at = _NEVER
        self._alarm.clear(self._ring)
        self.wake()

    def _ring(self) -> None:
        """It is time, unless output has put the look off, or it is early: to wake the task for that would cost much more."""
        if self._next_at() > trio.current_time():
            self.set_alarm()
            return
        try:
            is_done = self._goes_on() and not self._look()
        except Exception as error:
            self._fault, is_done = error, False
        if is_done:
            self.set_alarm()
        else:
            self.wake()
