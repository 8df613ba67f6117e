"""Is there room on the disk for another task?

A run must be able to put its output and its end on record, so a task is refused before the disk is full: when the store has its
size, or less than the floor is free. What runs already goes on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from sandboxd import metrics
from sandboxd.errors import NotReady

AGE_S: Final = 1.0  # a look costs a read of the store; no run fills much in that time


class Storage:
    """Looks, at most once in `AGE_S`. `used`: the bytes that the store has in use."""

    def __init__(self, folder: Path, used: Callable[[], Awaitable[int]], *, max_bytes: int, min_free_bytes: int) -> None:
        self._folder = folder
        self._used = used
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._looking = trio.Lock()
        self._looked_at = -math.inf
        self._refusal: tuple[str, dict[str, object]] | None = None

    async def check(self) -> None:
        """`NotReady` when there is no room; `StoreUnavailable`."""
        if not self._is_fresh():
            async with self._looking:
                if not self._is_fresh():  # somebody else has looked meanwhile
                    self._refusal = await self._look()
                    self._looked_at = trio.current_time()
        if self._refusal is not None:
            why, facts = self._refusal
            raise NotReady(f"cannot take another task: {why}", facts=facts)

    def _is_fresh(self) -> bool:
        return trio.current_time() - self._looked_at < AGE_S

    async def _look(self) -> tuple[str, dict[str, object]] | None:
        used = await self._used()
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        metrics.STORE_BYTES.set(used)
        metrics.DISK_FREE_BYTES.set(free)
        if free < self._min_free_bytes:
            why = f"{free} bytes are free on the store's disk, and {self._min_free_bytes} have to be"
            return why, {"bound": "min_free", "limit": self._min_free_bytes}
        if self._max_bytes and used >= self._max_bytes:
            return f"the store has {used} bytes, and {self._max_bytes} are its limit", {
                "bound": "max_store",
                "limit": self._max_bytes,
            }
        return None
