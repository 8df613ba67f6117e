"""Where do push notifications go from here, and who sees to it?

The operations keep configs in the store and say so to whoever delivers, the desk, which is above them (`courier`). Without one,
as while the daemon starts, nothing is lost: what has yet to be sent is what follows each config's cursor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import attrs
import trio

from sandboxd.store.base import DeadPush, PushEntry
from sandboxd.targets import Targets


class Desk(Protocol):
    """Sees to it that notifications go out."""

    def kept_nowait(self, entry: PushEntry) -> None:
        """A config is on record."""

    def dropped_nowait(self, numbers: Sequence[int]) -> None:
        """Configs are gone."""

    def expect_nowait(self, task_id: str) -> None:
        """A config of that task gets on record with an event that has yet to be written."""

    async def look(self, url: str) -> str | None:
        """Why nothing may go to that URL by the addresses that its name has now; None: it may, or nobody can tell."""

    async def resend(self, entry: PushEntry, dead: DeadPush) -> str:
        """Try a dead letter once more; why it did not get through, empty: it did."""


class Standing(Protocol):
    """Who may still come in."""

    def knows(self, principal: str) -> bool:
        """Whether somebody of that name could come in now."""

    def gone(self) -> frozenset[str]:
        """Who was there and never will be again: their credentials were revoked, or have expired."""


@attrs.define
class _Place:
    """Whose turn it is with the configs of one task."""

    lock: trio.Lock = attrs.field(factory=trio.Lock)
    users: int = 0


class Outbox:
    """What the operations know of delivery."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self.desk: Desk | None = None
        self._changing: dict[str, _Place] = {}

    def __repr__(self) -> str:
        return f"<Outbox desk={self.desk!r}>"

    @asynccontextmanager
    async def changing(self, task_id: str) -> AsyncIterator[None]:
        """Hold the configs of a task: who counts them and who adds one is the same, so that a cap is a cap."""
        place = self._changing.setdefault(task_id, _Place())
        place.users += 1
        try:
            async with place.lock:
                yield
        finally:
            place.users -= 1
            if not place.users:
                self._changing.pop(task_id, None)

    def kept_nowait(self, entry: PushEntry) -> None:
        """A config is on record."""
        if self.desk is not None:
            self.desk.kept_nowait(entry)

    def dropped_nowait(self, numbers: Sequence[int]) -> None:
        """Configs are gone."""
        if self.desk is not None:
            self.desk.dropped_nowait(numbers)

    def expect_nowait(self, task_id: str) -> None:
        """As `Desk.expect_nowait`."""
        if self.desk is not None:
            self.desk.expect_nowait(task_id)

    async def look(self, url: str) -> str | None:
        """As `Desk.look`."""
        return await self.desk.look(url) if self.desk is not None else None
