"""What time is it, for the record?

Wall-clock times go into events; every wait uses trio's monotonic clock instead, so a jump of the wall clock ends nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the shell gets its wall-clock times from; tests bring their own."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return datetime.now(UTC)
