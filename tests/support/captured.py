"""What was logged meanwhile?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sandboxd import logs


class _Gatherer(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        told: dict[str, object] = {
            "level": record.levelname.lower(),
            "room": logs.room_of(record.name),
            "event": record.getMessage(),
        }
        self.told.append({**told, **logs.fields_of(record)})


@contextmanager
def captured() -> Iterator[list[dict[str, object]]]:
    """Every event of level info and above that is logged within the block, in place of a line."""
    gatherer, before, level = _Gatherer(), logs.OURS.handlers[:], logs.OURS.level
    logs.OURS.handlers[:] = [gatherer]
    logs.OURS.setLevel(logging.INFO)
    try:
        yield gatherer.told
    finally:
        logs.OURS.handlers[:] = before
        logs.OURS.setLevel(level)
