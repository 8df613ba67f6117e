"""How does a cockpit learn what the tasks of a host ask?

It lists what has not ended, which also finds what already waited, and follows each such task by its stream, from the last
number that it saw; or, where the host is to push, by its notifications, each of which makes it look anew. A host that closes
streams when a task asks is followed by its lists until the task goes on. A host that cannot be reached is tried again, for
ever: its questions stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from sandboxd import logs
from sandboxd.a2a.model import TaskState
from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.push_source import LOOK_EVERY_S as PUSHED_EVERY_S
from sandboxd.cockpit.push_source import PushSource
from sandboxd.cockpit.reading import Refused, Seen, Unreachable, Unread, Unreadable
from sandboxd.cockpit.record import Record

LOOK_EVERY_S: Final = 1.0  # a question of a task that is followed comes by its stream, at once
FOLLOWED_MAX: Final = 200  # the rest are looked at by their lists
WAIT_MAX_S: Final = 15.0
NEWS_MAX: Final = 64  # of one task, not yet looked at
LOOKS_AT_ONCE: Final = 8  # at tasks that are on record here, and not listed
_SAME_LIMIT: Final = 3

_log = logs.logger(__name__)


async def watch(controller: Controller, agent: Agent, *, every_s: float = LOOK_EVERY_S) -> None:
    """Tell the controller what the tasks of that host ask, for ever."""
    await _Watch(controller, agent, every_s).run()


class _Watch:
    def __init__(self, controller: Controller, agent: Agent, every_s: float) -> None:
        self._controller = controller
        self._agent = agent
        self._every_s = every_s
        self._followed = set[str]()
        self._closes_when_asking: dict[str, None] = {}
        self._spoiled: dict[
            str, TaskState
        ] = {}  # whose stream cannot be read: followed by lists until the state is another one

    @property
    def _pushes(self) -> PushSource | None:
        """Where the host's push notifications come in; None: it sends none."""
        pushes = self._controller.pushes
        return pushes if pushes is not None and pushes.serves(self._agent.name) else None

    async def run(self) -> None:
        failures = 0
        async with trio.open_nursery() as nursery:  # one task for each stream
            while True:
                since = pushes.count(self._agent.name) if (pushes := self._pushes) is not None else 0
                try:
                    await self._look(nursery)
                    if failures >= _SAME_LIMIT:
                        _log.info("The host answers again", host=self._agent.name)
                    failures = 0
                except (Refused, Unreachable, Unreadable) as error:
                    failures += 1
                    if failures == _SAME_LIMIT:  # once, not with every look
                        _log.warning("Cannot look at the tasks of a host", host=self._agent.name, why=str(error))
                pushes = self._pushes
                every_s = PUSHED_EVERY_S if pushes is not None and not failures else self._every_s
                wait_s = min(every_s * 2 ** min(failures, 8), max(WAIT_MAX_S, every_s))
                if pushes is None:
                    await trio.sleep(wait_s)
                else:
                    await pushes.wait_told(self._agent.name, since, wait_s)

    async def _look(self, nursery: trio.Nursery) -> None:
        listed = await self._agent.unfinished()
        await self._controller.cannot_read(self._agent, listed.unread)
        for seen in listed.tasks:
            await self._controller.saw(self._agent, seen)
            pushes = self._pushes
            if pushes is not None and await pushes.follow(self._agent, seen.task_id):
                continue
            follows = seen.state is not TaskState.INPUT_REQUIRED or seen.task_id not in self._closes_when_asking
            follows = follows and self._spoiled.get(seen.task_id) != seen.state
            if follows and seen.task_id not in self._followed and len(self._followed) < FOLLOWED_MAX:
                self._followed.add(seen.task_id)
                nursery.start_soon(self._follow, seen.task_id, seen.state)
        await self._look_after(listed.tasks, {one.task_id for one in listed.unread})

    async def _look_after(self, tasks: Sequence[Seen], unread: set[str]) -> None:
        """What is on record of tasks that are not among those that go on; each is looked at by itself."""
        listed = {seen.task_id for seen in tasks}
        if (pushes := self._pushes) is not None:
            pushes.forget(self._agent.name, listed)
        for kept in (self._spoiled, self._closes_when_asking):
            for task_id in [one for one in kept if one not in listed]:
                kept.pop(task_id)
        await self._controller.missions.look_after(self._agent, listed | unread)
        await self._controller.receipts.look_after(self._agent, {seen.task_id: seen for seen in tasks})
        records = [one for one in await self._controller.records.unfinished() if one.place.host == self._agent.name]
        sighted = self._controller.sightings.of_host(self._agent.name)
        known = {record.place.task_id for record in records} | set(sighted)
        limit = trio.CapacityLimiter(LOOKS_AT_ONCE)
        async with trio.open_nursery() as nursery:  # one task for each task of the host
            for task_id in known - listed - unread:
                of_task = [record for record in records if record.place.task_id == task_id]
                nursery.start_soon(self._look_at, task_id, of_task, limit)

    async def _look_at(self, task_id: str, records: Sequence[Record], limit: trio.CapacityLimiter) -> None:
        async with limit:
            try:
                if not task_id:  # what cannot be read of a list, and can be by now
                    await self._controller.passed(self._agent, task_id)
                    return
                await self._controller.saw(self._agent, await self._agent.get(task_id))
            except Refused as refused:
                if refused.is_unknown_task:
                    await self._controller.passed(self._agent, task_id)
                    for record in records:
                        await self._controller.vanished(record)
            except Unreadable as error:
                await self._controller.cannot_read(self._agent, [Unread(task_id, "", str(error))])
            except Unreachable:
                return  # the next look tries again

    async def _follow(self, task_id: str, state: TaskState) -> None:
        """One stream, and the next one where it broke, until the task ends or its host closes it in good order."""
        stream = _Stream(self._agent, task_id)
        try:
            for broken in range(_SAME_LIMIT):
                async with trio.open_nursery() as nursery:  # the reader of the stream
                    news = stream.open(nursery)
                    async for seen in news:
                        await self._controller.saw(self._agent, seen)
                if isinstance(stream.failure, Refused | Unreadable):
                    _log.info("Cannot follow a task", host=self._agent.name, task=task_id, why=str(stream.failure))
                    if not (isinstance(stream.failure, Refused) and stream.failure.is_passing):
                        self._spoiled[task_id] = state if stream.last is None else stream.last.state
                    return
                if stream.failure is None:
                    if stream.last is not None and stream.last.state is TaskState.INPUT_REQUIRED:
                        self._closes_when_asking[task_id] = None
                    return
                await trio.sleep(self._every_s * 2**broken)
        finally:
            self._followed.discard(task_id)


class _Stream:
    """What a host tells of one task, over one connection after another.

    `failure`: why the last connection ended; None: in good order.
    """

    def __init__(self, agent: Agent, task_id: str) -> None:
        self._agent = agent
        self._task_id = task_id
        self._number: int | None = None
        self.last: Seen | None = None
        self.failure: Refused | Unreachable | Unreadable | None = None

    def open(self, nursery: trio.Nursery) -> trio.MemoryReceiveChannel[Seen]:
        """Begin to read behind what was read before. Who is too slow to hear loses the connection, not the news."""
        send, receive = trio.open_memory_channel[Seen](NEWS_MAX)
        nursery.start_soon(self._read, send)
        return receive

    async def _read(self, send: trio.MemorySendChannel[Seen]) -> None:
        def hear(number: int | None, seen: Seen) -> bool:
            try:
                send.send_nowait(seen)
            except trio.WouldBlock:
                return False
            self._number, self.last = self._number if number is None else number, seen
            return not seen.state.is_terminal

        self.failure = None
        with send:
            try:
                await self._agent.follow(self._task_id, hear, after=self._number)
            except (Refused, Unreachable, Unreadable) as error:
                self.failure = error
