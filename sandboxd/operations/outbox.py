"""Where do push notifications go from here, and who sees to it?

The operations keep configs in the store and say so to whoever delivers, the desk, which is above them (`courier`). Without one,
as while the daemon starts, nothing is lost: what has yet to be sent is what follows each config's cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sandboxd.store.base import PushEntry
from sandboxd.targets import Targets


class Desk(Protocol):
    """Sees to it that notifications go out."""

    def kept_nowait(self, entry: PushEntry) -> None:
        """A config is on record."""

    def dropped_nowait(self, numbers: Sequence[int]) -> None:
        """Configs are gone."""

    async def look(self, url: str) -> str | None:
        """Why nothing may go to that URL by the addresses that its name has now; None: it may, or nobody can tell."""


class Outbox:
    """What the operations know of delivery."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self.desk: Desk | None = None

    def __repr__(self) -> str:
        return f"<Outbox desk={self.desk!r}>"

    def kept_nowait(self, entry: PushEntry) -> None:
        """A config is on record."""
        if self.desk is not None:
            self.desk.kept_nowait(entry)

    def dropped_nowait(self, numbers: Sequence[int]) -> None:
        """Configs are gone."""
        if self.desk is not None:
            self.desk.dropped_nowait(numbers)

    async def look(self, url: str) -> str | None:
        """As `Desk.look`."""
        return await self.desk.look(url) if self.desk is not None else None
