"""How does a caller follow a task?

First the task as it stands at a sequence number, then every event after it, in order, without a gap or a double. A stream
ends after a terminal event; one that answers a send ends also when the task waits for its client (A2A 1.0 §11.7; the turn
is over).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Protocol

from sandboxd.a2a.model import Message, TaskNews, TaskState
from sandboxd.errors import UnsupportedOperation
from sandboxd.operations import render
from sandboxd.operations.host import Caller, Host
from sandboxd.store.base import StoredEvent
from sandboxd.tasks.events import Event
from sandboxd.tasks.view import TaskView, fold, without_history
from sandboxd.values import frozen


@frozen
class StreamEvent:
    """One item and the sequence number at which it stands."""

    seq: int
    item: TaskNews


@frozen
class MessageEvent:
    """A bare message; it belongs to no task, so it has no number."""

    item: Message
    seq: None = None


class Stream(Protocol):
    """An async context manager and iterator of events, for one reader.

    `on_expected`: called, while the reader waits, with an event that may be next: then it is the very same value.
    `on_told`: called with that event when it has come; whether its client has been sent it, so that it is not handed out.
    """

    on_expected: Callable[[StreamEvent], None]
    on_told: Callable[[StreamEvent], bool]

    async def __aenter__(self) -> AsyncIterator[StreamEvent | MessageEvent]: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class OneMessage:
    """The stream of an agent that answers with a message alone (A2A 1.0 §3.1.2): it, and the end."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.on_expected: Callable[[StreamEvent], None] = _nothing  # there is no task, so nothing is expected
        self.on_told: Callable[[StreamEvent], bool] = _not_told

    async def __aenter__(self) -> AsyncIterator[MessageEvent]:
        return self._only()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def _only(self) -> AsyncGenerator[MessageEvent, None]:
        yield MessageEvent(self._message)


@frozen
class _Step:
    """What an event leads to: the task right after it, and what is told of it."""

    event: Event
    view: TaskView
    news: StreamEvent


class TaskStream:
    """An async context manager and iterator of `StreamEvent`s. Closing it touches nothing but this stream.

    `history_length` is that of the Task which a stream begins with (A2A 1.0 §3.2.4); None: all.
    """

    def __init__(
        self,
        host: Host,
        caller: Caller,
        view: TaskView,
        *,
        ends_at_interruption: bool,
        history_length: int | None = None,
    ) -> None:
        self._host = host
        self._caller = caller
        self._view = view
        self._ends_at_interruption = ends_at_interruption
        self._history_length = history_length
        self._stack = AsyncExitStack()
        self._expected: _Step | None = None
        self.on_expected: Callable[[StreamEvent], None] = _nothing
        self.on_told: Callable[[StreamEvent], bool] = _not_told

    async def __aenter__(self) -> AsyncIterator[StreamEvent]:
        self._stack.enter_context(self._host.followers.follow(self._view.task_id))
        subscription = self._host.feed.subscribe(self._view.task_id, after=self._view.seq)
        events = await self._stack.enter_async_context(subscription)
        events.on_expected, events.on_told = self._expect, self._tell
        return await self._stack.enter_async_context(aclosing(self._follow(events)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _follow(self, events: AsyncIterator[StoredEvent]) -> AsyncGenerator[StreamEvent, None]:
        view = self._view
        yield StreamEvent(view.seq, await render.task(self._host, self._caller, view, history_length=self._history_length))
        if self._is_over(view):
            return
        async for stored in events:
            step, self._expected = self._expected, None
            if step is None or step.event is not stored.event:
                step = self._step(stored)
            view = self._view = step.view
            yield step.news
            if self._is_over(view):
                return

    def _expect(self, stored: StoredEvent) -> None:
        self._expected = self._step(stored)
        self.on_expected(self._expected.news)

    def _tell(self, stored: StoredEvent) -> bool:
        step = self._expected
        is_known = step is not None and step.event is stored.event and not self._is_over(step.view)
        if step is None or not is_known or not self.on_told(step.news):
            return False
        self._view, self._expected = step.view, None
        return True

    def _step(self, stored: StoredEvent) -> _Step:
        view = without_history(fold(self._view, stored.event))  # its messages were told, one by one
        return _Step(stored.event, view, StreamEvent(view.seq, render.update(self._caller, view, stored)))

    def _is_over(self, view: TaskView) -> bool:
        assert view.state is not None
        return view.state.is_terminal or (self._ends_at_interruption and view.state.is_interrupted)


def _nothing(_: StreamEvent) -> None:
    pass


def _not_told(_: StreamEvent) -> bool:
    return False


def check_streaming(host: Host) -> None:
    """`UnsupportedOperation` where the card says that there are no streams (A2A 1.0 §3.3.4); `TooBusy`: there are too many."""
    if not host.capabilities.streaming:
        raise UnsupportedOperation("cannot stream: this agent has streaming switched off")
    host.followers.check()


async def until(host: Host, view: TaskView, *, started: bool) -> TaskView:
    """Follow a task until it left `submitted` (`started`), or else until it is terminal or waits for its client."""
    return await _follow_until(host, view, _has_started if started else _has_settled)


async def until_terminal(host: Host, view: TaskView) -> TaskView:
    """Follow a task to its end."""
    return await _follow_until(host, view, _has_ended)


async def _follow_until(host: Host, view: TaskView, suffices: Callable[[TaskState], bool]) -> TaskView:
    assert view.state is not None
    if suffices(view.state):
        return view
    async with host.feed.subscribe(view.task_id, after=view.seq) as events:
        async for stored in events:
            view = fold(view, stored.event)
            assert view.state is not None
            if suffices(view.state):
                break
    return view


def _has_started(state: TaskState) -> bool:
    return state is not TaskState.SUBMITTED


def _has_settled(state: TaskState) -> bool:
    return state.is_terminal or state.is_interrupted


def _has_ended(state: TaskState) -> bool:
    return state.is_terminal
