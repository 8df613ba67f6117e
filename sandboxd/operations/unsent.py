"""How much output may wait in answers for clients that are slow to take it?

An answer with a task's output lies in memory until its client has taken it, and a client may take its time. So what answers
hold is counted, from the moment it is read until the last of it has left: in all, and one principal has half of it at most. An
answer that finds no room waits a moment, then it is refused. Small ones are not counted: connections have a bound.
"""

from __future__ import annotations

import math
from collections import Counter
from contextvars import ContextVar
from typing import Final

import trio

from sandboxd.errors import TooBusy

FREE_BYTES: Final = 64 * 1024
WAIT_S: Final = 5.0
HELD: ContextVar[Held | None] = ContextVar("HELD", default=None)  # of the request that is served


class Unsent:
    """What all answers hold. An answer that is larger than the whole bound goes alone."""

    def __init__(self, max_bytes: float = math.inf) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._of: Counter[str] = Counter()
        self._freed = trio.Event()

    def __repr__(self) -> str:
        return f"<Unsent {self._bytes}/{self._max_bytes} bytes>"

    @property
    def size_bytes(self) -> int:
        """What waits now."""
        return self._bytes

    async def take(self, principal: str, size_bytes: int, *, wait_s: float) -> None:
        """Make room for that much of the current request's answer; `TooBusy`. Without a request nothing is counted."""
        held = HELD.get()
        if held is None or size_bytes <= FREE_BYTES:
            return
        with trio.move_on_after(wait_s):
            while not self._has_room(principal, size_bytes):
                await self._freed.wait()
        # No checkpoint between the last look and the accounting.
        if not self._has_room(principal, size_bytes):
            why = f"cannot send {size_bytes} bytes of output now: clients have not taken what was sent to them"
            raise TooBusy(why, facts={"bound": "max_unsent", "limit": int(self._max_bytes)})
        held.hold(self, principal, size_bytes)

    def count(self, principal: str, size_bytes: int) -> None:
        """Change what that principal's answers hold; called by `Held` alone."""
        self._bytes += size_bytes
        self._of[principal] += size_bytes
        if not self._of[principal]:
            del self._of[principal]
        if size_bytes < 0:
            self._freed.set()
            self._freed = trio.Event()

    def _has_room(self, principal: str, size_bytes: int) -> bool:
        fits = self._bytes == 0 or self._bytes + size_bytes <= self._max_bytes
        return fits and (self._of[principal] == 0 or self._of[principal] + size_bytes <= self._max_bytes / 2)


class Held:
    """What one request's answer holds."""

    def __init__(self) -> None:
        self._of: Unsent | None = None
        self._principal = ""
        self._bytes = 0

    def hold(self, of: Unsent, principal: str, size_bytes: int) -> None:
        """More of it, which `Unsent` has room for."""
        self._of, self._principal = of, principal
        self._bytes += size_bytes
        of.count(principal, size_bytes)

    def spelled(self, size_bytes: int) -> None:
        """It is larger than its output, spelled out: JSON writes a control character with six."""
        if self._of is not None and size_bytes > self._bytes:
            self._of.count(self._principal, size_bytes - self._bytes)
            self._bytes = size_bytes

    def release(self) -> None:
        """The client has taken it, or is gone."""
        if self._of is not None:
            self._of.count(self._principal, -self._bytes)
        self._of, self._bytes = None, 0
