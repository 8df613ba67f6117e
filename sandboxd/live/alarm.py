"""How is a run woken at the very moment that it asked for?

By a timer of the kernel's for all runs (timerfd_create(2)), to some 50 µs. The event loop's own timers come up to 1 ms late
(epoll_wait(2) counts in milliseconds), and a settle time is part of how soon a client hears of a question.
"""

from __future__ import annotations

import contextlib
import contextvars
import heapq
import itertools
import os
from collections.abc import Callable
from typing import Final

import trio

from sandboxd.runner.linux import open_timer, set_timer

# Whoever is to be called so soon after another is called with it: output has mostly put off what it was to look at, and then it
# asks for a later moment. With 200 programs that talk that is 200 wakes a second and not 2,000.
EARLY_S: Final = 0.005
_STALE_MAX: Final = 64  # entries of the heap that count no more, beside as many as do

Call = Callable[[], None]


class Alarm:
    """The daemon's one; a task of `nursery` waits while anybody is to be woken."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._fd: int | None = None  # open while somebody is to be woken
        self._numbers = itertools.count()
        self._set: dict[Call, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Call]] = []

    def __repr__(self) -> str:
        return f"<Alarm of {len(self._set)}>"

    def set(self, call: Call, moment: float) -> None:
        """Call it once at that moment of trio's clock, in place of when it was to be called; it returns at once.

        Where another is called, it may be called up to `EARLY_S` before; if that is too early, it asks for the moment again.
        """
        number = next(self._numbers)
        self._set[call] = moment, number
        if len(self._heap) > 2 * len(self._set) + _STALE_MAX:
            self._heap = [(at, number, call) for call, (at, number) in self._set.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (moment, number, call))
        if self._fd is None:
            self._fd = open_timer()
            contextvars.Context().run(self._nursery.start_soon, self._run)  # in nobody's context: it serves all
        if self._heap[0][1] == number:
            set_timer(self._fd, moment - trio.current_time())

    def clear(self, call: Call) -> None:
        """Do not call it; safe where it was not to be called."""
        self._set.pop(call, None)
        if not self._set and self._fd is not None:
            set_timer(self._fd, 0.0)  # the task ends

    async def _run(self) -> None:
        assert self._fd is not None
        try:
            while self._set:
                await trio.lowlevel.wait_readable(self._fd)
                with contextlib.suppress(BlockingIOError):  # it was set anew
                    os.read(self._fd, 8)
                self._ring()
                if self._heap:
                    set_timer(self._fd, self._heap[0][0] - trio.current_time())
        finally:
            os.close(self._fd)
            self._fd = None
            self._heap.clear()

    def _ring(self) -> None:
        """Call whoever's time has come, or nearly, and drop what counts no more."""
        until, calls = trio.current_time() + EARLY_S, []
        while self._heap and self._heap[0][0] <= until:
            moment, number, call = heapq.heappop(self._heap)
            if self._set.get(call) == (moment, number):
                del self._set[call]
                calls.append(call)
        for call in calls:
            call()
