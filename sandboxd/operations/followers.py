"""How many streams may follow tasks, in all and of one task?

Each costs a buffer, a connection and its share of every event. A send or an answer that only waits for its task is no stream:
connections bound those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sandboxd.errors import TooBusy


class Followers:
    """Who follows what."""

    def __init__(self, max_all: float = math.inf, max_per_task: float = math.inf) -> None:
        self._max_all = max_all
        self._max_per_task = max_per_task
        self._of: Counter[str] = Counter()
        self._all = 0

    def __repr__(self) -> str:
        return f"<Followers {self._all}/{self._max_all} of {len(self._of)} tasks>"

    @property
    def count(self) -> int:
        """How many streams are open."""
        return self._all

    def check(self, task_id: str | None = None) -> None:
        """`TooBusy` when no stream can begin, of that task where there is one already; ask before anything is done."""
        if self._all >= self._max_all:
            self._refuse(f"{self._max_all} streams are open already", "max_subscribers", self._max_all)
        if task_id is not None and self._of[task_id] >= self._max_per_task:
            self._refuse(f"{self._max_per_task} streams follow it already", "max_subscribers_per_task", self._max_per_task)

    @contextmanager
    def follow(self, task_id: str) -> Iterator[None]:
        """One stream for as long as the block runs; `TooBusy`."""
        self.check(task_id)
        self._all += 1
        self._of[task_id] += 1
        try:
            yield
        finally:
            self._all -= 1
            self._of[task_id] -= 1
            if not self._of[task_id]:
                del self._of[task_id]

    def _refuse(self, why: str, bound: str, limit: float) -> None:
        raise TooBusy(f"cannot stream the task: {why}", facts={"bound": bound, "limit": int(limit)})
