"""Which tasks cannot be asked about here, and since when no more?

A task that asks without an envelope, or by a malformed one; a task that its host lists and that cannot be read; one whose
question waits for room (`room`); and one that has asked more than a task may. Each stands on record with the reason until it is
over, and none of them hides another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sandboxd import logs, metrics
from sandboxd.a2a.canonical import sha256_hex
from sandboxd.a2a.links import Links
from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.intake import AsksOtherwise
from sandboxd.cockpit.reading import Refused, Unreachable, Unread, Unreadable
from sandboxd.cockpit.record import Place
from sandboxd.cockpit.records import Records

TURNS_EACH: Final = 4  # how often what a task asks may come and go, for each question that it may ask
_WHYS_MAX: Final = 4

_log = logs.logger(__name__)


class Sightings:
    """One cockpit's; `questions_max`: how much a task may ask before it is cancelled."""

    def __init__(self, records: Records, questions_max: int) -> None:
        self._records = records
        self._questions_max = questions_max
        self._digests: dict[tuple[str, str], str] = {}
        self._turns: dict[tuple[str, str], int] = {}
        self._told: set[Place] = set()  # tasks that ask too much, and of which the log has been told

    async def restart(self) -> None:
        """What was on record when the process died."""
        self._digests = {(it.host, it.task_id): it.digest for it in await self._records.sightings()}

    def of_host(self, host: str) -> Collection[str]:
        """The tasks there that are on record; empty: one whose id cannot be read."""
        return [task_id for name, task_id in self._digests if name == host]

    def is_news(self, place: Place, other: AsksOtherwise | None) -> bool:
        """Whether the record says something else of that task; `take` does nothing where it does not."""
        return self._digests.get((place.host, place.task_id)) != (other.digest if other else None)

    async def take(self, agent: Agent, place: Place, other: AsksOtherwise | None, links: Links) -> None:
        """Put on record what a task asks that cannot be asked here; None: that it does not, or no longer."""
        if not self.is_news(place, other):
            return
        key = (place.host, place.task_id)
        self._turns[key] = self._turns.get(key, 0) + 1
        if other is not None and self._turns[key] > self._questions_max * TURNS_EACH:  # back and forth, without end
            await self.stop(agent, place)
            return
        if other is None:
            await self._records.pass_by(place, links)
            self._digests.pop(key, None)
            return
        await self._records.pass_by(place, links, other.digest)
        self._digests[key] = other.digest
        words = {"kind": other.kind, "digest": other.digest, "text": other.text, "why": other.why}
        if not await self._records.sight(place, **words, links=links, most=self._questions_max):
            await self.stop(agent, place)

    async def unread(self, agent: Agent, unread: Sequence[Unread], links: Links) -> None:
        """Tasks that a host lists, and that cannot be read; such as have no id that can be read are one."""
        whys = dict[Place, list[str]]()
        for one in unread:
            whys.setdefault(Place(agent.name, one.task_id, one.context_id), []).append(one.why)
        for place, said in whys.items():
            why = "the task cannot be read: " + "; ".join(list(dict.fromkeys(said))[:_WHYS_MAX])
            await self.take(agent, place, AsksOtherwise("malformed", sha256_hex(["unread", why]), "", why), links)

    async def stop(self, agent: Agent, place: Place) -> None:
        """End a task that asks without end; it is tried again with each further question, none of which goes on record."""
        if not place.task_id:  # nobody knows which one it is
            return
        metrics.BOUNDS.labels(bound="max_questions").inc()
        why = f"the task has asked more than {self._questions_max} questions"
        if place not in self._told:
            _log.warning("A task asks too much, and is cancelled", host=place.host, task=place.task_id, why=why)
            self._told.add(place)
        try:
            await agent.cancel(place.task_id, why)
        except (Refused, Unreachable, Unreadable) as error:
            _log.debug("Cannot cancel a task that asks too much", host=place.host, task=place.task_id, why=str(error))

    def forget(self, place: Place) -> None:
        """The task has ended."""
        self._told.discard(place)
        self._turns.pop((place.host, place.task_id), None)
