"""How is a mission started on a host, followed, resumed and ended?

One call a mission at a time; each outcome is an event on disk before the next call is made. A message id is on disk before its
message leaves, so after a kill the task is looked for, by the mission's context, before anything is sent again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs
import trio

from sandboxd import logs
from sandboxd.a2a.extensions import IDEMPOTENCY, REISSUE
from sandboxd.a2a.model import TaskState
from sandboxd.approvals.events import CancelAsked, ResumeAsked
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit import rows as question_rows
from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.intake import Asks, AsksOtherwise, read_question
from sandboxd.cockpit.missions import rows
from sandboxd.cockpit.missions.mission import TRIES_MAX, Mission, Order
from sandboxd.cockpit.missions.rows import By, Kept, MissionNews
from sandboxd.cockpit.missions.steps import (
    Act,
    Cancelled,
    Event,
    Failed,
    Missing,
    Resumed,
    Sending,
    Shown,
    StillAsks,
    Vanished,
    due,
)
from sandboxd.cockpit.reading import Refused, Seen, Unreachable, Unreadable
from sandboxd.cockpit.record import Place
from sandboxd.cockpit.records import Records, decide_question
from sandboxd.cockpit.seats import Seats
from sandboxd.values import frozen

CALLS_MAX: Final = 16  # to one host
SAID_MAX_CHARS: Final = 1000
Beside = Callable[[Any, Kept, datetime], None]
_SELF: Final = Principal("cockpit:missions", "cockpit:missions", may_answer=False)
_STILL_ASKS: Final = "its task asks still what is closed here, so it can only be answered at its host"
_AUTH: Final = "the host waits for an authorisation that it does not get here"
_TTL_MAX_S: Final = 10 * 366 * 86_400  # whatever a host promises
_DOUBT: Final = timedelta(minutes=10)  # before a host forgets a message, it is no longer taken to remember it

_log = logs.logger(__name__)


class NotEnded(Exception):
    """What a mission left cannot be read yet; the text says why."""


@frozen
class Result:
    """What a mission's task left, read after its state was."""

    state: TaskState
    artifacts: Sequence[Mapping[str, Any]]


class Missions:
    """One cockpit's; `agents` are its hosts by their names. `has_begun` hears that a host has a new task, to look there now."""

    def __init__(
        self,
        records: Records,
        agents: Mapping[str, Agent],
        clock: Callable[[], datetime],
        *,
        tries_max: int = TRIES_MAX,
        has_begun: Callable[[str], None] = lambda host: None,
    ) -> None:
        self._has_begun = has_begun
        self._records = records
        self._agents = agents
        self._clock = clock
        self._tries_max = tries_max
        self._watched = set[str]()
        self._shown: dict[str, Shown] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do what is to be done about missions, for ever."""
        self._watched |= set(await self._records.read(rows.ids_to_watch))
        busy = set[int]()
        seats = Seats(CALLS_MAX)
        async with trio.open_nursery() as nursery:  # one task for each call under way
            task_status.started()
            while True:
                since, next_at = self._records.changes, None
                for kept in await self._records.read(rows.going_on):
                    if kept.number in busy or (act := due(kept.mission)) is None:
                        continue
                    at = kept.mission.retry_at
                    if at is not None and at > self._clock():
                        next_at = at if next_at is None else min(next_at, at)
                        continue
                    busy.add(kept.number)
                    nursery.start_soon(self._do, kept, act, busy, seats.of(kept.mission.order.host))
                left = 30.0 if next_at is None else min(max((next_at - self._clock()).total_seconds(), 0.0), 30.0)
                with trio.move_on_after(left):
                    await self._records.wait_changed(since)

    # ── what people want ──

    async def start(self, order: Order, principal: Principal, channel: str, beside: Beside | None = None) -> Kept:
        """Put a mission on record, to be sent at once; `KeyError`: no such host is configured.

        `beside`: what goes on record with it, in the same transaction; what it raises keeps the mission from being started.
        """
        agent = self._agents[order.host]
        links = attrs.evolve(order.links, provider=agent.provider or order.links.provider)
        order = attrs.evolve(order, links=links)
        mission_id = str(uuid.uuid4())
        self._watched.add(mission_id)
        by = By(principal.name, channel)

        def work(connection: Any, now: datetime) -> Kept:
            mission = Mission(mission_id, order, principal.name, principal.person, principal.may_answer, now)
            kept = rows.insert(connection, mission, by, now)
            if beside is not None:
                beside(connection, kept, now)
            return kept

        return await self._records.write(work)

    async def resume(self, kept: Kept, principal: Principal, channel: str) -> Kept:
        """Have it go on where it is paused, and the question where that is held."""
        by = By(principal.name, channel)
        return await self._hear(kept, Resumed(), by, questions=ResumeAsked(principal, channel))

    async def cancel(self, kept: Kept, principal: Principal, channel: str, reason: str) -> Kept:
        """End it, its open questions and its task."""
        told = f"cancelled by {principal.name}" + (f": {reason}" if reason else "")
        return await self._hear(
            kept, Cancelled(told), By(principal.name, channel), questions=CancelAsked(principal, channel, reason)
        )

    async def find(self, name: str, limit: int = 8) -> Sequence[Kept]:
        """The mission of that number, or those whose id begins so."""
        return await self._records.read(lambda connection: rows.find(connection, name, limit))

    async def of_place(self, place: Place) -> Kept | None:
        """The mission whose task that is."""
        return await self._records.read(lambda connection: rows.of_place(connection, place))

    async def newest(self, limit: int, *, before: int | None = None) -> Sequence[Kept]:
        """The last missions, the newest first."""
        return await self._records.read(lambda connection: rows.newest(connection, limit, before))

    async def news_after(self, number: int, limit: int) -> Sequence[MissionNews]:
        """Changes of state behind that number, in order."""
        return await self._records.read(lambda connection: rows.news_after(connection, number, limit))

    async def result(self, kept: Kept) -> Result:
        """What its task left; `NotEnded`, `Refused`, `Unreachable`, `Unreadable`. The state is looked at first."""
        mission = kept.mission
        agent = self._agents.get(mission.order.host)
        if not mission.standing.is_final:
            raise NotEnded(f"it is {mission.standing.state}, and what its task has left by now is no result")
        if agent is None or mission.task_id is None:
            raise NotEnded("no task came of it" if agent else f"the host `{mission.order.host}` is no longer configured")
        seen, artifacts = await agent.result(mission.task_id)
        if not seen.state.is_terminal:
            raise NotEnded(f"its task is {seen.state.value}, and what it has left by now is no result")
        return Result(seen.state, artifacts)

    # ── what hosts say ──

    async def saw(self, host: str, seen: Seen, *, waits: str = "") -> None:
        """A host shows a task; most are no mission's. `waits`: why what it asks is not asked here yet."""
        if seen.context_id not in self._watched:
            return
        shown = _shown(seen)
        shown = attrs.evolve(shown, observed=shown.observed or waits)
        if self._shown.get(seen.context_id) == shown:
            return
        kept = await self._records.read(
            lambda connection: rows.of_place(connection, Place(host, seen.task_id, seen.context_id))
        )
        if kept is None:
            return
        await self._hear(kept, shown)
        if seen.state.is_terminal:
            self._shown.pop(seen.context_id, None)
            self._watched.discard(seen.context_id)
        else:
            self._shown[seen.context_id] = shown

    async def look_after(self, agent: Agent, listed: Collection[str]) -> None:
        """Missions whose task is not among those that go on at its host."""
        for kept in await self._records.read(rows.going_on):
            mission = kept.mission
            if mission.order.host != agent.name or mission.task_id is None or mission.task_id in listed:
                continue
            if mission.has_task_ended or mission.hold == "vanished":
                continue
            try:
                await self.saw(agent.name, await agent.get(mission.task_id))
            except Refused as refused:
                if refused.is_unknown_task:
                    self._shown.pop(mission.mission_id, None)
                    await self._hear(kept, Vanished("the host does not know its task any more"))
            except (Unreachable, Unreadable):
                continue  # it hides no other one, and the next look tries again

    # ── what has to be done ──

    async def _do(self, kept: Kept, act: Act, busy: set[int], seats: trio.CapacityLimiter) -> None:
        async with seats:
            agent = self._agents.get(kept.mission.order.host)
            if agent is None:
                why = f"the host `{kept.mission.order.host}` is no longer configured"
                event: Event | None = Failed(act, why, never_left=act == "send", refused=True)
            else:
                if act == "send":
                    kept = await self._hear(kept, Sending())
                may_leave = act != "send" or due(kept.mission) == "find"
                event = await self._call(agent, kept, act) if may_leave else None
        if event is not None:
            await self._hear(kept, event)
            self._shown.pop(kept.mission.mission_id, None)  # whether its question waits for room, the next look says
        if act == "send" and isinstance(event, Shown):
            self._has_begun(kept.mission.order.host)
        busy.discard(kept.number)
        self._records.touch()  # what came while this call was under way is to be done now

    async def _call(self, agent: Agent, kept: Kept, act: Act) -> Event | None:
        mission = kept.mission
        try:
            match act:
                case "send":
                    return _shown(await _dispatch(agent, mission))
                case "find":
                    found = await agent.find_in_context(mission.mission_id)
                    return Missing(await self._acts_once(agent, mission)) if found is None else _shown(found)
                case "stop":
                    return await _stop(agent, mission)
                case "look":
                    assert mission.task_id is not None
                    return await self._look(agent, mission.task_id)
                case "close":
                    asked = CancelAsked(_SELF, "cockpit", mission.cancel)
                    await self._hear(kept, Cancelled(mission.cancel), questions=asked)
                    return None
        except Refused as refused:
            if refused.is_unknown_task and act != "send":
                return Vanished("the host does not know its task any more")
            why = f"{refused}: {refused.words}" if refused.words else str(refused)
            return Failed(act, why, refused=not refused.is_passing)
        except (Unreachable, Unreadable) as error:
            return Failed(act, str(error), never_left=isinstance(error, Unreachable) and error.never_left)

    async def _look(self, agent: Agent, task_id: str) -> Event:
        """A task whose question is closed here: has it gone on, or does it ask that question still?"""
        seen = await agent.get(task_id)
        asks = read_question(seen)
        if isinstance(asks, Asks):
            record = await self._records.find(agent.name, asks.envelope.prompt_id)
            if record is not None and record.approval.phase == "closed" and record.approval.status != "responded":
                if await agent.declared(REISSUE) is None:
                    return StillAsks(_STILL_ASKS)
                await agent.reissue(task_id, record.prompt_id)  # what it asks then comes by the watch, as any question
        return attrs.evolve(_shown(seen), looked=True)

    async def _acts_once(self, agent: Agent, mission: Mission) -> bool:
        """Whether the host remembers the message, if it ever had it."""
        declared = await agent.declared(IDEMPOTENCY)
        ttl_s = (declared or {}).get("ttl_seconds")
        if not isinstance(ttl_s, int) or isinstance(ttl_s, bool):
            return False
        return self._clock() < mission.started_at + timedelta(seconds=max(min(ttl_s, _TTL_MAX_S), 0)) - _DOUBT

    async def _hear(
        self, kept: Kept, event: Event, by: By | None = None, *, questions: CancelAsked | ResumeAsked | None = None
    ) -> Kept:
        """Put an event on record, and what it says of the open questions, in one transaction."""

        def work(connection: Any, now: datetime) -> Kept:
            after = rows.hear(connection, kept, event, now, by=by, tries_max=self._tries_max)
            mission = after.mission
            if questions is not None and mission.task_id is not None:
                for record in question_rows.of_task(connection, mission.order.host, mission.task_id):
                    decide_question(connection, record, questions, now)
                after = rows.by_number(connection, kept.number)
            return after

        before = kept.mission.standing
        after = await self._records.write(work)
        standing = after.mission.standing
        if standing.state == "paused" and standing != before:
            _log.warning(
                "A mission is paused", mission=after.mission.mission_id, host=after.mission.order.host, why=standing.reason
            )
        return after


async def _dispatch(agent: Agent, mission: Mission) -> Seen:
    order = mission.order
    envelope = {"adapter": order.adapter, "mode": order.mode, "command": list(order.command)}
    more = {
        "working_dir": order.working_dir,
        "timeout_seconds": order.timeout_s,
        "input_mode": "text-line" if order.text_line else None,
    }
    return await agent.dispatch(
        envelope=envelope | {name: value for name, value in more.items() if value is not None},
        text=order.text,
        message_id=mission.message_id,
        context_id=mission.mission_id,
        links=mission.links,
        via=order.via,
    )


async def _stop(agent: Agent, mission: Mission) -> Event:
    assert mission.task_id is not None
    try:
        seen = await agent.cancel(mission.task_id, mission.cancel or "the mission is over")
    except Refused:
        seen = await agent.get(mission.task_id)  # it may have ended already
    if seen.state.is_terminal:
        return _shown(seen)
    return Failed("stop", f"the task was to be cancelled, and is {seen.state.value}")


def _shown(seen: Seen) -> Shown:
    asks = read_question(seen)
    observed = asks.why if isinstance(asks, AsksOtherwise) else ""
    if seen.state is TaskState.AUTH_REQUIRED:
        observed = _AUTH
    said = seen.text if seen.state.is_terminal else ""
    return Shown(seen.task_id, seen.state.value, said[:SAID_MAX_CHARS], observed)
