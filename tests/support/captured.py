"""What was logged meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sandboxd import logs


@contextmanager
def captured() -> Iterator[list[logs.Fields]]:
    """Every event that is logged within the block, in place of a line."""
    told: list[logs.Fields] = []
    with logs.told_to(lambda level, fields: told.append({"level": level, **fields})):
        yield told
