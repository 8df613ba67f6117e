"""How do a moment and a text fit into a column?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)


def key(text: str) -> str:
    """The text as a column can hold it: a lone surrogate, which a client's JSON may carry, becomes its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def to_us(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _US


def from_us(moment_us: int) -> datetime:
    """The inverse of `to_us`."""
    return _EPOCH + timedelta(microseconds=moment_us)
