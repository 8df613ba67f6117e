"""How does news flow to a client that listens, at the client's own pace?

Server-sent events. The source runs in a task of its own and hands over one frame at a time, so a slow reader holds up nobody
but its own stream, and a client that hangs up ends only its own. What comes while the reader waits can be sent on the spot,
without a turn of the loop for each of the two tasks. A comment goes out after every `ping_s` of silence; the stream ends with
its source, when the doors close, and when the reader would no longer be let in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final

import quart
import trio
from quart.wrappers.response import ResponseBody

from sandboxd.a2a.jsontext import dump_json
from sandboxd.serving.exchange import CURRENT

COMMENT: Final = b": still here\n\n"


class Tell:
    """What a source calls with each frame, and waits until the reader wants it."""

    def __init__(self, put: Callable[[bytes], Awaitable[None]], at_once: Callable[[bytes], bool]) -> None:
        self._put = put
        self.at_once = at_once  # send it now, if the reader has had all before and can be sent all of it; whether that was done

    async def __call__(self, frame: bytes) -> None:
        """Hand it over."""
        await self._put(frame)


Source = Callable[[Tell], Awaitable[None]]


def event(value: Any, *, number: int | None = None, name: str | None = None) -> bytes:
    """One event; `dump_json` leaves no line end in it."""
    head = (f"event: {name}\n" if name else "") + (f"id: {number}\n" if number is not None else "")
    return head.encode() + b"data: " + dump_json(value) + b"\n\n"


def stream_answer(
    source: Source,
    *,
    closing: trio.Event,
    ping_s: float,
    is_still_in: Callable[[], bool] = lambda: True,
    on_taken: Callable[[], None] = lambda: None,
) -> quart.Response:
    """The answer that streams what `source` tells; `on_taken` is called whenever the reader has taken a frame, or a comment."""
    made = quart.Response(_Body(source, closing, ping_s, is_still_in, on_taken), 200, content_type="text/event-stream")
    made.headers["Cache-Control"] = "no-store"
    made.headers["X-Accel-Buffering"] = "no"  # nginx would hold frames back
    made.timeout = None  # Quart cuts every answer after 60 s otherwise
    return made


class _Body(ResponseBody):
    def __init__(
        self,
        source: Source,
        closing: trio.Event,
        ping_s: float,
        is_still_in: Callable[[], bool],
        on_taken: Callable[[], None],
    ) -> None:
        self._source = source
        self._closing = closing
        self._ping_s = ping_s
        self._is_still_in = is_still_in
        self._on_taken = on_taken
        self._is_new = True
        self._stack = AsyncExitStack()
        self._put, self._frames = trio.open_memory_channel[bytes](0)
        self._patience: trio.CancelScope | None = None  # while the reader waits for a frame
        self._exchange = CURRENT.get(None)

    async def __aenter__(self) -> AsyncIterator[bytes]:
        # The source runs in a task of its own: a wait that a comment interrupts would end an iterator that it reads.
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(nursery.cancel_scope.cancel)
        nursery.start_soon(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._is_new:
            self._on_taken()
        self._is_new = False
        piece = COMMENT
        with trio.move_on_after(self._ping_s) as patience:
            self._patience = patience
            try:
                piece = await self._frames.receive()
            except trio.EndOfChannel:
                raise StopAsyncIteration from None
            finally:
                self._patience = None
        if not self._is_still_in():  # it may have waited for long
            raise StopAsyncIteration
        return piece

    def _send_nowait(self, frame: bytes) -> bool:
        if self._patience is None or self._exchange is None or not self._is_still_in():
            return False
        if not self._frames.statistics().tasks_waiting_receive:  # it was handed a frame, and its turn has not come yet
            return False
        if not self._exchange.send_nowait(frame):
            return False
        self._patience.deadline = trio.current_time() + self._ping_s
        return True

    async def _run(self) -> None:
        async with self._put, trio.open_nursery() as nursery:  # closing the channel ends the body
            nursery.start_soon(self._end_when_closing, nursery)
            await self._source(Tell(self._put.send, self._send_nowait))
            nursery.cancel_scope.cancel()

    async def _end_when_closing(self, nursery: trio.Nursery) -> None:
        await self._closing.wait()
        nursery.cancel_scope.cancel()
