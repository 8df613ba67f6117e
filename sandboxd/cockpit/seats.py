"""How much may be under way with one host, so that no host keeps the others waiting?"""

from __future__ import annotations

import trio


class Seats:
    """So many for each host."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, trio.CapacityLimiter] = {}

    def of(self, host: str) -> trio.CapacityLimiter:
        """That host's."""
        return self._of.setdefault(host, trio.CapacityLimiter(self._most))
