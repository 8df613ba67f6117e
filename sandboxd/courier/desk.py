"""What is to be sent to whom, in which order, and what if it does not get through?

One lane a config: it reads its task's log from the config's cursor on and has one event after the other sent, each until it
got through or had all its tries, so the order is kept and a receiver that is down holds up nobody else. A lane takes turns only
with others that send to the same host and port. The cursor moves in the store after each event: whatever dies, an event is sent
again rather than not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import trio

from sandboxd import logs, metrics
from sandboxd.courier.link import Link
from sandboxd.courier.notice import Notice, is_wanted, notice_of
from sandboxd.operations.audit import note_gone
from sandboxd.operations.host import Host
from sandboxd.operations.outbox import Standing
from sandboxd.store.base import DeadPush, PushEntry, StoredEvent, StoreUnavailable
from sandboxd.store.changes import is_last
from sandboxd.targets import BadTarget, Targets, shown_url
from sandboxd.tasks.view import TaskView, fold, without_history

LONGEST_WAIT_S: Final = 300.0
AT_ONCE: Final = 256  # notifications under way
AT_ONCE_AN_ORIGIN: Final = 4  # and one while its receiver does not answer
BODY_MAX_BYTES: Final = 16 * 1024 * 1024
LOOK_S: Final = 1.0  # how often it is asked whose credentials are gone
RESEND_S: Final = 30.0  # twice a try's 15 s: it may have to wait for its turn
GONE: Final = "its events are no longer on record"
_LARGE_BYTES: Final = 256 * 1024
_LARGE_AT_ONCE: Final = 4
_READ_EVENTS: Final = 64
_STORE_WAIT_S: Final = 1.0

_log = logs.logger(__name__)
T = TypeVar("T")


@attrs.define(eq=False)
class _Lane:
    """A live config. `view`: the task as of its cursor, None: not read yet."""

    entry: PushEntry
    view: TaskView | None = None
    is_running: bool = False
    has_news: bool = False
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@attrs.define(eq=False)
class _Origin:
    """One receiving host and port."""

    seats: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(AT_ONCE_AN_ORIGIN))
    users: int = 0


class Desk:
    """`operations.outbox.Desk`: one for each daemon."""

    def __init__(self, host: Host, link: Link, targets: Targets, *, tries: int, standing: Standing | None = None) -> None:
        """`standing` None: everybody stays for ever."""
        self._host = host
        self._standing = standing
        self._link = link
        self._targets = targets
        self._tries = tries
        self._lanes: dict[int, _Lane] = {}
        self._of_task: dict[str, set[int]] = {}
        self._origins: dict[str, _Origin] = {}
        self._expected: set[str] = set()  # tasks that have a config which is not known here yet
        self._dealt_with: frozenset[str] = frozenset()  # principals that are gone, and their configs with them
        self._seats = trio.CapacityLimiter(AT_ONCE)
        self._large = trio.CapacityLimiter(_LARGE_AT_ONCE)
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<Desk lanes={len(self._lanes)}>"

    async def run(self) -> None:
        """See to it that everything goes out, until cancelled."""
        assert self._host.outbox is not None
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._host.feed.on_news.append(self._hear)
            self._host.outbox.desk = self
            try:
                for entry in await self._insist(self._host.store.live_pushes):
                    self.kept_nowait(entry)
                while True:
                    await self._drop_who_is_gone()
                    await trio.sleep(LOOK_S)
            finally:
                self._host.feed.on_news.remove(self._hear)
                self._host.outbox.desk = None
                self._nursery = None

    def kept_nowait(self, entry: PushEntry) -> None:
        """As `Desk.kept_nowait`. One that takes another's place ends the other's lane."""
        if entry.number in self._lanes:
            return
        replaced = [
            number
            for number in self._of_task.get(entry.task_id, ())
            if self._lanes[number].entry.principal == entry.principal and self._lanes[number].entry.config.id == entry.config.id
        ]
        self.dropped_nowait(replaced)
        self._lanes[entry.number] = _Lane(entry)
        self._of_task.setdefault(entry.task_id, set()).add(entry.number)
        self._start(entry.number)

    def dropped_nowait(self, numbers: Sequence[int]) -> None:
        """As `Desk.dropped_nowait`."""
        for number in numbers:
            if lane := self._lanes.get(number):
                lane.scope.cancel()
                self._forget(lane)

    def expect_nowait(self, task_id: str) -> None:
        """As `Desk.expect_nowait`."""
        self._expected.add(task_id)

    async def look(self, url: str) -> str | None:
        """As `Desk.look`."""
        return await self._link.look(url)

    async def resend(self, entry: PushEntry, dead: DeadPush) -> str:
        """As `Desk.resend`: one try, beside the config's own lane."""
        store = self._host.store
        found = await store.events(dead.task_id, after=dead.seq - 1, limit=1)
        view = await store.view_at(dead.task_id, dead.seq)
        if not found or view is None:
            return GONE
        notice = await notice_of(self._host, entry, view, found[0])
        with trio.move_on_after(RESEND_S):
            said = await self._post(entry, notice)
            return "" if _is_delivered(said) else _why(said)
        return f"no courier took it, or its turn did not come, within {RESEND_S:.0f} s"

    async def _drop_who_is_gone(self) -> None:
        """Forget the configs of principals whose credentials were revoked or have expired."""
        gone = self._standing.gone() if self._standing is not None else frozenset[str]()
        if not gone - self._dealt_with:
            return
        for entry in await self._insist(lambda: self._host.store.drop_pushes_of(gone)):
            self.dropped_nowait([entry.number])
            _log.info("dropped a push config whose principal is gone", task=entry.task_id, principal=entry.principal)
            await note_gone(self._host, entry)
        self._dealt_with = gone

    async def _adopt(self, task_id: str) -> None:
        for entry in await self._insist(lambda: self._host.store.pushes(task_id)):
            if entry.number not in self._lanes:
                self._expected.discard(task_id)
                self.kept_nowait(entry)

    def _hear(self, task_id: str) -> None:
        if task_id in self._expected and self._nursery is not None:
            self._nursery.start_soon(self._adopt, task_id)
        for number in self._of_task.get(task_id, ()):
            self._start(number)

    def _start(self, number: int) -> None:
        lane = self._lanes[number]
        lane.has_news = True
        if not lane.is_running and self._nursery is not None:
            lane.is_running, lane.scope = True, trio.CancelScope()
            self._nursery.start_soon(self._run_lane, lane)

    def _forget(self, lane: _Lane) -> None:
        self._lanes.pop(lane.entry.number, None)
        numbers = self._of_task.get(lane.entry.task_id, set())
        numbers.discard(lane.entry.number)
        if not numbers:
            self._of_task.pop(lane.entry.task_id, None)

    async def _run_lane(self, lane: _Lane) -> None:
        try:
            with lane.scope:
                await self._work_off(lane)
        except Exception as error:  # one config's trouble is nobody else's
            _log.exception("Cannot go on sending notifications", exc_info=error, task=lane.entry.task_id)
            self._forget(lane)
        finally:
            lane.is_running = False

    async def _work_off(self, lane: _Lane) -> None:
        """Send what follows the cursor, until nothing does."""
        store = self._host.store
        while True:
            lane.has_news = False
            found = await self._insist(lambda: store.events(lane.entry.task_id, after=lane.entry.cursor, limit=_READ_EVENTS))
            if not found and not lane.has_news and await self._is_over(lane):
                return
            for stored in found:
                lane.view = without_history(fold(lane.view or await self._view_before(lane), stored.event))
                if not is_wanted(lane.entry, stored.event):
                    lane.entry = attrs.evolve(lane.entry, cursor=stored.seq)
                elif not await self._deliver(lane, stored):
                    self._forget(lane)
                    return
            if found and not is_wanted(lane.entry, found[-1].event):
                await self._insist(lambda: store.advance_push(lane.entry.number, lane.entry.cursor, got_through=False))
            if found and is_last(found[-1].event):
                self._forget(lane)
                return

    async def _is_over(self, lane: _Lane) -> bool:
        """Nothing was found behind the cursor: whether that is all for now. Events can have been pruned before they went."""
        entry = lane.entry
        view = await self._insist(lambda: self._host.store.view(entry.task_id))
        if lane.has_news:
            return False
        if view is not None and view.seq > entry.cursor:
            await self._bury(lane, view.seq, 0, GONE)
            lane.view = view
        if view is None or (view.state is not None and view.state.is_terminal):
            self._forget(lane)
            return True
        return not lane.has_news

    async def _view_before(self, lane: _Lane) -> TaskView:
        entry, store = lane.entry, self._host.store
        if entry.cursor:
            before = await self._insist(lambda: store.view_at(entry.task_id, entry.cursor))
            assert before is not None, "events follow it"
            return before
        now = await self._insist(lambda: store.view(entry.task_id))
        assert now is not None, "it has events"
        return TaskView(now.task_id, now.context_id, now.instance)

    async def _deliver(self, lane: _Lane, stored: StoredEvent) -> bool:
        """Send one event until it got through or was given up; False: the config is gone."""
        assert lane.view is not None
        store, number, view = self._host.store, lane.entry.number, lane.view
        notice = await self._insist(lambda: notice_of(self._host, lane.entry, view, stored))
        await self._wait_until_due(lane)
        while True:
            await self._wait_until_known(lane.entry)
            said = await self._post(lane.entry, notice)
            if _is_delivered(said):
                metrics.PUSHES.labels(outcome="delivered").inc()
                lane.entry = attrs.evolve(lane.entry, cursor=stored.seq, tries=0, is_given_up=False)
                return await self._insist(lambda: store.advance_push(number, stored.seq, got_through=True))
            tries = lane.entry.tries + 1
            lane.entry = attrs.evolve(lane.entry, tries=tries)
            status = said.get("status")
            is_final = bool(said.get("refused")) or (status is not None and 300 <= status < 400)
            if is_final or tries >= (1 if lane.entry.is_given_up else self._tries):
                return await self._bury(lane, stored.seq, tries, _why(said))
            metrics.PUSHES.labels(outcome="failed").inc()
            wait_s = min(2.0 ** (tries - 1), LONGEST_WAIT_S)
            next_at = self._host.clock.now() + timedelta(seconds=wait_s)
            if not await self._insist(partial(store.fail_push, number, tries=tries, next_at=next_at)):
                return False
            await trio.sleep(wait_s)

    async def _wait_until_due(self, lane: _Lane) -> None:
        """After a restart, the rest of a wait."""
        rest_s = (lane.entry.next_at - self._host.clock.now()).total_seconds()
        if rest_s > 0:
            await trio.sleep(min(rest_s, LONGEST_WAIT_S))

    async def _wait_until_known(self, entry: PushEntry) -> None:
        """Nothing goes out for somebody who could not come in now; of who is gone for good, config and lane are ended."""
        while self._standing is not None and not self._standing.knows(entry.principal):
            if entry.principal in self._standing.gone():
                self._dealt_with -= {entry.principal}  # a config that was made just before its principal went
            await trio.sleep(LOOK_S)

    async def _post(self, entry: PushEntry, notice: Notice) -> Mapping[str, Any]:
        try:
            origin = self._targets.read(notice.url).origin
        except BadTarget as error:  # the config was allowed once, and is no longer
            return {"refused": str(error)}
        if len(notice.body) > BODY_MAX_BYTES:
            return {"refused": f"it is larger than {BODY_MAX_BYTES} bytes"}
        async with contextlib.AsyncExitStack() as stack:
            place = stack.enter_context(self._at(origin))
            await stack.enter_async_context(place.seats)
            await stack.enter_async_context(self._seats)
            if len(notice.body) > _LARGE_BYTES:
                await stack.enter_async_context(self._large)
            said = await self._link.post(notice.url, notice.headers(self._host.clock.now()), notice.body)
            # A receiver that does not answer holds its seat for as long as a try may take.
            place.seats.total_tokens = AT_ONCE_AN_ORIGIN if said.get("status") is not None else 1
            return said

    @contextlib.contextmanager
    def _at(self, origin: str) -> Any:
        place = self._origins.setdefault(origin, _Origin())
        place.users += 1
        try:
            yield place
        finally:
            place.users -= 1
            if not place.users:
                self._origins.pop(origin, None)

    async def _bury(self, lane: _Lane, seq: int, tries: int, why: str) -> bool:
        entry = lane.entry
        url = shown_url(entry.config.url)
        _log.error(
            "Cannot deliver a notification", task=entry.task_id, seq=seq, config=entry.config.id, url=url, tries=tries, why=why
        )
        metrics.PUSHES.labels(outcome="dead").inc()
        dead = DeadPush(entry.task_id, entry.config.id, entry.principal, url, seq, self._host.clock.now(), tries, why)
        lane.entry = attrs.evolve(entry, cursor=seq, tries=0, is_given_up=True)
        return await self._insist(lambda: self._host.store.bury_push(entry.number, dead))

    async def _insist(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do it as soon as the store can."""
        while True:
            try:
                return await do()
            except StoreUnavailable as error:
                _log.error("Cannot look after notifications", why=str(error))
                await trio.sleep(_STORE_WAIT_S)


def _is_delivered(said: Mapping[str, Any]) -> bool:
    status = said.get("status")
    return status is not None and 200 <= status < 300


def _why(said: Mapping[str, Any]) -> str:
    status = said.get("status")
    return f"it was answered with HTTP status {status}" if status is not None else str(said.get("refused") or said["failed"])
