"""How are times spelled on the wire? (A2A 1.0 §5.6.1: UTC, milliseconds, `Z`, never an offset)"""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """`2026-11-29T12:00:00.000Z`; `moment` must be aware."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> datetime:
    """An aware UTC datetime; any fraction and any offset are read. `ValueError` when it is no RFC 3339 time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs `Z` or an offset")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time needs a year from 1 to 9999") from None
