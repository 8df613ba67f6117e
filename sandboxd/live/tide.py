"""When does output that waits get on record?

At one tick for all runs that have some. A timer, a wake and a commit for each run's line were a third of the daemon's work with
200 programs that talk: at a tick their lines share the commit's one flush of the disk. Nobody's output waits longer for it, but
for some milliseconds while a question is told.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Final

import trio

TICK_S: Final = 0.05  # output is put together for that long at most: 20 appends a second a run, unless it is large
AT_ONCE: Final = 8  # runs, before everyone else has a turn of the loop: well under a millisecond
HOLD_S: Final = 0.003  # from the last look before a question is asked until it is sent, on a busy loop
HOLD_MOST_S: Final = 0.02  # of a tick, however many questions come


class Tide:
    """The daemon's one; a task of `nursery` waits while output does."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._waiting: dict[Callable[[], None], None] = {}  # in the order in which they came
        self._held_until = float("-inf")

    def __repr__(self) -> str:
        return f"<Tide of {len(self._waiting)}>"

    def join(self, flush: Callable[[], None]) -> None:
        """Have `flush` called within `TICK_S`, once, however often it is asked for until then; it must not raise."""
        if not self._waiting:
            contextvars.Context().run(self._nursery.start_soon, self._turn)  # in nobody's context: it serves all
        self._waiting[flush] = None

    def hold(self) -> None:
        """A question is due: for `HOLD_S` let no turns of others come between it and its clients."""
        self._held_until = trio.current_time() + HOLD_S

    async def _turn(self) -> None:
        await trio.sleep(TICK_S)
        most = trio.current_time() + HOLD_MOST_S
        waiting, self._waiting = self._waiting, {}
        for count, flush in enumerate(waiting, 1):
            flush()
            if count % AT_ONCE == 0:
                await trio.sleep_until(min(self._held_until, most))
