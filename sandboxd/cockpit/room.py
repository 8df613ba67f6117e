"""How many questions may be open at once, and what is said of one that finds no room?

A question for which there is no room stays where it is: its program waits at its host, it is shown here with this reason, and
is asked as soon as another one is answered or closed. So a host that asks without end fills neither the record nor anybody's
list, and takes no room that another host's questions have.
"""

from __future__ import annotations

from typing import Final, Literal

from sandboxd import logs, metrics
from sandboxd.values import frozen

OPEN_MAX: Final = 1000  # of all hosts: some days of work for a few people
OPEN_PER_HOST_MAX: Final = 200  # three times what a sandboxd runs at once as it comes, and as many as a list shows

_log = logs.logger(__name__)


@frozen
class Full:
    """There is no room. `bound`: which bound is reached, as metrics call it."""

    bound: Literal["max_open", "max_open_per_host"]
    limit: int


@frozen
class Room:
    """How many questions may be open: of one host, and of all."""

    of_host: int = OPEN_PER_HOST_MAX
    in_all: int = OPEN_MAX

    def full(self, of_host: int, in_all: int) -> Full | None:
        """Whether there is room for one more beside so many."""
        if of_host >= self.of_host:
            return Full("max_open_per_host", self.of_host)
        return Full("max_open", self.in_all) if in_all >= self.in_all else None

    @property
    def why(self) -> str:
        """What people are told of a question that waits for room; the same whichever bound it is, since that may change."""
        most = f"{self.of_host} of one host (`max-open-per-host`) and {self.in_all} in all (`max-open`)"
        return f"no more than {most} may be open: it waits at its host, and is asked here once others are answered or closed"


ROOMY: Final = Room()


class Doorkeeper:
    """Counts what finds no room, and tells the log of each host once, until there is room again."""

    def __init__(self) -> None:
        self._full = set[str]()

    def turned_away(self, host: str, full: Full) -> None:
        """A question of that host waits for room, since now."""
        metrics.BOUNDS.labels(bound=full.bound).inc()
        if host not in self._full:
            _log.warning("No more questions are taken for now", host=host, bound=full.bound, limit=full.limit)
            self._full.add(host)

    def let_in(self, host: str) -> None:
        """A question of that host found room."""
        if host in self._full:
            _log.info("Questions are taken again", host=host)
            self._full.discard(host)
