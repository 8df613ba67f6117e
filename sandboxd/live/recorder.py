"""How does what a run experiences get on record, in order and before anyone sees it?

`record` is a plain call: it folds the event into the run's view at once, and queues it; `write` appends the queue to the
store, as many events as wait at a time. So no checkpoint comes between an act and its place in the log, a client that goes
away interrupts nothing, and what is published is on disk (invariant 6): it was appended, or the store was told to `foresee`
it and the append follows. The queue has a bound, in bytes: a reader waits in `room` while the store is slow. The history that
is on record is not held in memory as well. While the store is unavailable, writing is tried again, and nothing is dropped,
until the daemon stops and gives up: then whoever waits for a record hears that it is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from sandboxd import logs
from sandboxd.store.base import Entry, PushEntry, StoreUnavailable
from sandboxd.store.feed import Feed
from sandboxd.tasks.events import Event
from sandboxd.tasks.view import TaskView, fold, without_history
from sandboxd.values import frozen

QUEUE_MAX_BYTES: Final = 2 * 1024 * 1024  # per run; the kernel's pty buffer (about 19 KB) then holds the program back
BATCH_MAX_BYTES: Final = 1024 * 1024  # half of that, so one half is read while the other is flushed: that is what takes time
EVENT_BYTES: Final = 1024  # about what an event with its view takes in memory beside its output
EVENTS_MAX: Final = 50_000  # of one task; 900 s of output in 20 appends a second are 18,000
TELLING_TURNS: Final = 2  # of the loop until what was told is sent: frame and socket; the writer's thread would share them
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 2.0

_log = logs.logger(__name__)


def _nothing() -> None:
    pass


class RecordLost(StoreUnavailable):
    """The daemon stopped before the store took the event."""


@attrs.define(eq=False)
class Fate:
    """Whether an event got to the disk."""

    _settled: trio.Event = attrs.field(factory=trio.Event)
    _is_lost: bool = False

    async def committed(self) -> None:
        """Return once the event is on disk; `RecordLost` when it never will be."""
        await self._settled.wait()
        if self._is_lost:
            raise RecordLost("cannot write the store: the daemon stopped before it took the event")

    def settle(self, *, is_lost: bool = False) -> None:
        """Tell whoever waits; called by the recorder alone."""
        self._is_lost = is_lost
        self._settled.set()


@attrs.define(eq=False)
class _Foreseen:
    """`entry` as it would be recorded next, behind event `after`; `view` is the task then."""

    entry: Entry
    view: TaskView
    after: int
    is_tried: bool = False  # to have the store keep it
    is_told: bool = False


@frozen
class Ticket:
    """An event on its way to the disk, and the task right after it, whose history may begin with what is on record."""

    seq: int
    view: TaskView
    fate: Fate = attrs.field(factory=Fate)
    then: Callable[[], None] = _nothing


class Recorder:
    """The one writer of one task's events. `on_overrun` is called from `max_events` on: the run has to end."""

    def __init__(self, feed: Feed, view: TaskView, *, max_events: int = EVENTS_MAX) -> None:
        self.on_overrun: Callable[[], None] = _nothing
        self._max_events = max_events
        self._feed = feed
        self._view = view
        self._written = view.seq
        self._queue: list[tuple[Entry, Ticket]] = []
        self._queued_bytes = 0
        self._changed = trio.Event()
        self._foreseen: _Foreseen | None = None
        self._kept: _Foreseen | None = None  # the store has it, and the task still stands before it

    @property
    def view(self) -> TaskView:
        """The task with everything that was recorded, written or not; of its history what is not written."""
        return self._view

    def record(
        self, event: Event, chunk: bytes = b"", push: PushEntry | None = None, then: Callable[[], None] = _nothing
    ) -> Ticket:
        """Put the event in its place; `IllegalTransition` when it cannot follow, and then nothing has changed.

        `push`: the push notification config that came with it, see `Entry`. `then`: called once it is on record; it must not
        raise.
        """
        foreseen, self._foreseen = self._foreseen, None
        if foreseen is not None and foreseen.entry.event is event and foreseen.after == self._view.seq and push is None:
            self._view, entry = foreseen.view, foreseen.entry
        else:
            self._view, entry = fold(self._view, event), Entry(event, chunk, push)
        ticket = Ticket(self._view.seq, self._view, then=then)
        self._queue.append((entry, ticket))
        self._queued_bytes += EVENT_BYTES + len(chunk)
        self._tell_ahead()
        self._wake()
        if self._view.seq >= self._max_events:
            self.on_overrun()
        return ticket

    def foresee(self, event: Event) -> None:
        """That event may be recorded next: make all that can be made of it, and have the store keep it. Changes nothing."""
        after, view = self._view.seq, fold(self._view, event)
        self._foreseen = _Foreseen(self._feed.store.prepared(Entry(event), view, after=after), view, after)
        self._wake()

    def unforesee(self) -> None:
        """It will not be recorded."""
        self._foreseen = None
        self._wake()

    async def room(self) -> None:
        """Wait until the queue is below its bound."""
        while self._queued_bytes > QUEUE_MAX_BYTES:
            await self._changed.wait()

    async def write(self) -> None:
        """Append what is queued, until a terminal event is on disk. Cancelled, it loses what is not."""
        batch: list[tuple[Entry, Ticket]] = []
        try:
            while True:
                while not self._queue:
                    await self._look_ahead()
                batch = self._next_batch()
                view = batch[-1][1].view
                if self._kept is not None and self._kept.is_told:
                    for _ in range(TELLING_TURNS):
                        await trio.lowlevel.checkpoint()
                await self._append([entry for entry, _ in batch], view)
                self._written, self._kept = view.seq, None
                self._view = without_history(self._view, written=view)
                self._queued_bytes -= sum(EVENT_BYTES + len(entry.chunk) for entry, _ in batch)
                for _, ticket in batch:
                    ticket.fate.settle()
                    ticket.then()
                self._wake()
                if view.state is not None and view.state.is_terminal:
                    return
                batch = []  # up to a MiB of output, not to be held until more comes
        except trio.Cancelled:
            if self._kept is not None and self._kept.is_told:
                self._feed.store.forsake(self._view.task_id)
            self._kept = None
            for _, ticket in (*batch, *self._queue):
                if ticket.seq > self._written:
                    ticket.fate.settle(is_lost=True)
            raise

    async def _look_ahead(self) -> None:
        """While nothing is to be written: see to it that the store has what is foreseen, and nothing else."""
        store, task_id, foreseen, kept = self._feed.store, self._view.task_id, self._foreseen, self._kept
        if foreseen is not None and not foreseen.is_tried and foreseen.after == self._written:
            foreseen.is_tried = True
            try:
                await store.foresee(foreseen.entry, foreseen.view, after=foreseen.after)
                self._kept = foreseen
                self._feed.expect(foreseen.entry, foreseen.view)
                self._tell_ahead()
            except StoreUnavailable as error:  # then it is told as everything else is: when it is on record
                _log.warning("Cannot keep a question ahead of its time", task=task_id, error=str(error))
        elif kept is not None and kept is not foreseen:
            await self._insist(lambda: store.unforesee(task_id, after=kept.after))
            self._kept = None
        else:
            await self._changed.wait()

    def _tell_ahead(self) -> None:
        """Tell what is appended next at once, if the store keeps it."""
        kept = self._kept
        if kept is not None and not kept.is_told and self._queue and self._queue[0][0] is kept.entry:
            kept.is_told = True
            self._feed.tell(kept.entry, kept.view)

    async def _append(self, entries: list[Entry], view: TaskView) -> None:
        await self._insist(lambda: self._feed.append(entries, view, after=self._written))

    async def _insist(self, write: Callable[[], Awaitable[None]]) -> None:
        delay_s = RETRY_FIRST_S
        while True:
            try:
                return await write()
            except StoreUnavailable as error:
                task_id = self._view.task_id
                _log.error("Cannot append to the store, trying again", task=task_id, error=str(error), delay_s=delay_s)
                await trio.sleep(delay_s)
                delay_s = min(delay_s * 2, RETRY_MAX_S)

    def _next_batch(self) -> list[tuple[Entry, Ticket]]:
        count = size = 0
        while count < len(self._queue) and size < BATCH_MAX_BYTES:
            size += EVENT_BYTES + len(self._queue[count][0].chunk)
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
