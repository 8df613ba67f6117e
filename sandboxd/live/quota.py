"""How many tasks may be live at once, in all, in one instance, of one principal?

A task is live from the moment it is taken until its end is on record: nothing is queued, so whoever is over a bound is told to
come again.
"""

from __future__ import annotations

from collections import Counter

from sandboxd.errors import TooBusy
from sandboxd.values import frozen


@frozen
class Quota:
    """The bounds."""

    max_tasks: int
    per_instance: int
    per_principal: int


class Seats:
    """Who is seated where."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._taken = 0
        self._by_instance: Counter[str] = Counter()
        self._by_principal: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Seats {self._taken}/{self.quota.max_tasks}>"

    def take(self, instance: str, principal: str) -> None:
        """Take a seat, which `free` gives back; `TooBusy` when there is none, and then nothing has changed."""
        quota = self.quota
        for taken, most, key, whose in (
            (self._taken, quota.max_tasks, "max_tasks", "on this host"),
            (self._by_instance[instance], quota.per_instance, "max_tasks_per_instance", "in this instance"),
            (self._by_principal[principal], quota.per_principal, "max_tasks_per_principal", "of this caller"),
        ):
            if taken >= most:
                why = f"cannot start a task: {most} are live already {whose}, which is the limit"
                raise TooBusy(why, facts={"bound": key, "limit": most})
        self._count(instance, principal, 1)

    def free(self, instance: str, principal: str) -> None:
        """Give a seat back."""
        self._count(instance, principal, -1)

    def _count(self, instance: str, principal: str, by: int) -> None:
        self._taken += by
        for counter, name in ((self._by_instance, instance), (self._by_principal, principal)):
            counter[name] += by
            if not counter[name]:  # principals come and go
                del counter[name]
