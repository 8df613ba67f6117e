"""How does everyone hear what happened, in order, from any point on?

Store first, then publish. A question is foreseen (`Store.foresee`): it is on disk before it is asked, so it is published
first and appended then, and whoever reads the task meanwhile waits for that. A subscriber gets its past from the store and
then what comes, without a gap and without a duplicate: it joins before it reads, and a sequence number decides what is next,
whichever way it came. Its buffer is bounded; when it overflows it is dropped and the subscriber reads on from the store, so
nobody slow holds up the writer or is cut off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from sandboxd.store.base import Entry, Store, StoredEvent
from sandboxd.store.changes import is_last
from sandboxd.tasks.view import TaskView

BUFFER_EVENTS: Final = 256
BUFFER_BYTES: Final = 256 * 1024
_REPLAY_EVENTS: Final = 256


class Feed:
    """The store, and everyone who listens. All appends of a daemon go through its one feed."""

    def __init__(self, store: Store, *, buffer_events: int = BUFFER_EVENTS, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.store = store
        self._buffer_events, self._buffer_bytes = buffer_events, buffer_bytes
        self._listeners: dict[str, set[Subscription]] = {}
        self._is_closed = False
        self.on_news: list[Callable[[str], None]] = []  # called with a task's id after each of its appends; must not raise

    async def create(self, principal: str, entries: Sequence[Entry], view: TaskView) -> None:
        """As `Store.create`, then publish. Cancelled before anything is written, or not at all."""
        await self._keep(lambda: self.store.create(principal, entries, view), entries, view, after=0)

    async def append(self, entries: Sequence[Entry], view: TaskView, *, after: int) -> None:
        """As `Store.append`, then publish. Cancelled before anything is written, or not at all."""
        await self._keep(lambda: self.store.append(entries, view, after=after), entries, view, after=after)

    def expect(self, entry: Entry, view: TaskView) -> None:
        """Say to who listens that this may be told next, so that they can make ready; nobody is to show it."""
        for subscription in self._listeners.get(view.task_id, ()):
            subscription.expect(StoredEvent(view.seq, entry.event, entry.chunk))

    def tell(self, entry: Entry, view: TaskView) -> None:
        """Publish what the store keeps as foreseen, and that has happened now; its `append` is to follow at once."""
        self.store.promise(view.task_id)
        self._publish(view.task_id, [entry], view.seq - 1)

    @asynccontextmanager
    async def subscribe(self, task_id: str, *, after: int) -> AsyncIterator[Subscription]:
        """Iterate over the events that follow number `after`: the past, then live, until the task or the feed ends.

        A task that is not on record ends at once. Iterating may raise `StoreUnavailable`.
        """
        subscription = Subscription(self.store, task_id, after, self._buffer_events, self._buffer_bytes)
        if self._is_closed:
            subscription.end()
        listeners = self._listeners.setdefault(task_id, set())
        listeners.add(subscription)
        try:
            yield subscription
        finally:
            listeners.discard(subscription)
            if not listeners:
                self._listeners.pop(task_id, None)

    def close(self) -> None:
        """End all subscriptions, and those that would follow."""
        self._is_closed = True
        for listeners in self._listeners.values():
            for subscription in listeners:
                subscription.end()

    async def _keep(
        self, write: Callable[[], Awaitable[None]], entries: Sequence[Entry], view: TaskView, *, after: int
    ) -> None:
        # Whoever appends must know afterwards where its task stands, and listeners must hear of all that is on disk: so the
        # wait is shielded. It is as long as one commit.
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            await write()
        for call in self.on_news:
            call(view.task_id)
        self._publish(view.task_id, entries, after)  # what was told already is dropped by its number

    def _publish(self, task_id: str, entries: Sequence[Entry], after: int) -> None:
        events = [StoredEvent(seq, entry.event, entry.chunk) for seq, entry in enumerate(entries, start=after + 1)]
        for subscription in self._listeners.get(task_id, ()):
            for event in events:
                subscription.offer(event)


class Subscription:
    """One listener's place in one task's events: an async iterator, for one reader."""

    def __init__(self, store: Store, task_id: str, after: int, buffer_events: int, buffer_bytes: int) -> None:
        self._store, self._task_id = store, task_id
        self._position = after  # number of the last event that was handed out
        self._max_events, self._max_bytes = buffer_events, buffer_bytes
        self._live: deque[StoredEvent] = deque()
        self._live_bytes = 0
        self._past: deque[StoredEvent] = deque()
        self._must_read = True  # the store may hold events that the buffer does not
        self._is_first_read = True
        self._is_over = False
        self._news = trio.Event()
        self._expected: StoredEvent | None = None
        self.on_expected: Callable[[StoredEvent], None] = lambda _: None  # called in the reader's own wait; it may not come
        self._is_waiting = False  # the reader, for news, and it has all that came before
        # Called while the reader waits: whether it has been told this, so that it is not handed out. It must not raise.
        self.on_told: Callable[[StoredEvent], bool] = lambda _: False

    def expect(self, event: StoredEvent) -> None:
        """Have `on_expected` called with it, if the reader waits for it; called by the feed."""
        self._expected = event
        self._news.set()

    def offer(self, event: StoredEvent) -> None:
        """Take a live event, never waiting; called by the feed."""
        if self._is_over:
            return
        if self._is_next(event) and self.on_told(event):  # a reader's turn of a busy loop comes milliseconds later
            self._position = event.seq
            return
        self._live.append(event)
        self._live_bytes += len(event.chunk)
        if len(self._live) > self._max_events or self._live_bytes > self._max_bytes:
            self._live.clear()
            self._live_bytes = 0
            self._must_read = True
        self._news.set()

    def end(self) -> None:
        """Hand out nothing more; called by the feed."""
        self._is_over = True
        self._live.clear()
        self._past.clear()
        self._news.set()

    def __aiter__(self) -> AsyncIterator[StoredEvent]:
        return self

    async def __anext__(self) -> StoredEvent:
        await trio.lowlevel.checkpoint()
        while (event := self._next_known()) is None:
            if self._is_over:
                raise StopAsyncIteration
            if self._must_read:
                await self._read()
            else:
                expected, self._expected = self._expected, None
                if expected is not None and expected.seq == self._position + 1:
                    self.on_expected(expected)
                self._news = trio.Event()
                self._is_waiting = True
                try:
                    await self._news.wait()
                finally:
                    self._is_waiting = False
        self._position = event.seq
        self._is_over = is_last(event.event)
        return event

    def _is_next(self, event: StoredEvent) -> bool:
        is_idle = self._is_waiting and not (self._live or self._must_read)
        return is_idle and event.seq == self._position + 1 and not is_last(event.event)

    def _next_known(self) -> StoredEvent | None:
        if self._past:
            return self._past.popleft()
        while self._live and self._live[0].seq <= self._position:
            if is_last(self._drop_live().event):  # the caller asked for what comes after the end
                self._is_over = True
        if self._live and self._live[0].seq == self._position + 1:
            return self._drop_live()
        self._must_read = self._must_read or bool(self._live)  # a gap: two appends at once can be published the wrong way round
        return None

    def _drop_live(self) -> StoredEvent:
        event = self._live.popleft()
        self._live_bytes -= len(event.chunk)
        return event

    async def _read(self) -> None:
        # What is offered during the read lands in the buffer. Lowered first, so that an overflow meanwhile raises it again.
        self._must_read, is_first = False, self._is_first_read
        try:
            found = await self._store.events(self._task_id, after=self._position, limit=_REPLAY_EVENTS)
            if is_first and not found:
                view = await self._store.view(self._task_id)
                if view is None or (view.state is not None and view.state.is_terminal and view.seq <= self._position):
                    self._is_over = True  # no event will ever come to say so
        except BaseException:
            self._must_read = True
            raise
        self._is_first_read = False
        self._past.extend(found)
        self._must_read = self._must_read or bool(found)
