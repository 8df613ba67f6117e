"""How does a task's news flow to a client that listens?

Server-sent events: `id:` is the sequence number, one `data: ` line, a comment after every `ping_s` of silence. A stream reads
its own subscription at the pace of its own client, with at most one frame in hand: a slow reader holds up nobody else, and a
client that hangs up ends only its stream. All streams end when the doors close. What goes wrong after the first byte is an
`event: error`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final

import quart
import trio
from quart.wrappers.response import ResponseBody

from sandboxd.a2a.jsontext import dump_json
from sandboxd.a2a.model import StreamItem
from sandboxd.errors import InvalidParams, Problem, Refusal
from sandboxd.http.answers import as_refusal
from sandboxd.operations.stream import Stream
from sandboxd.operations.unsent import HELD

COMMENT: Final = b": still here\n\n"
_SEQ_MAX_DIGITS: Final = 15


def last_event_id(header: str | None) -> int | None:
    """The number in a `Last-Event-ID` header; None without one (browsers send an empty one for "none")."""
    if header is None or not header.strip():
        return None
    text = header.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _SEQ_MAX_DIGITS):
        why = Problem("Last-Event-ID", "must be the number of an event of this task")
        raise InvalidParams("cannot replay the task", problems=[why])
    return int(text)


def frame(value: Any, *, seq: int | None = None, event: str | None = None) -> bytes:
    """One event; `dump_json` leaves no line end in it."""
    head = (f"event: {event}\n" if event else "") + (f"id: {seq}\n" if seq is not None else "")
    return head.encode() + b"data: " + dump_json(value) + b"\n\n"


def event_stream(
    stream: Stream,
    *,
    encode: Callable[[StreamItem], Any],
    encode_refusal: Callable[[Refusal], Any],
    closing: trio.Event,
    ping_s: float,
) -> quart.Response:
    """The answer that streams; `stream` is entered when its body is sent, and left with it."""
    made = quart.Response(_Body(stream, encode, encode_refusal, closing, ping_s), 200, content_type="text/event-stream")
    made.headers["Cache-Control"] = "no-cache"
    made.headers["X-Accel-Buffering"] = "no"  # nginx would hold frames back
    made.timeout = None  # Quart cuts every answer after 60 s otherwise
    return made


class _Body(ResponseBody):
    def __init__(
        self,
        stream: Stream,
        encode: Callable[[StreamItem], Any],
        encode_refusal: Callable[[Refusal], Any],
        closing: trio.Event,
        ping_s: float,
    ) -> None:
        self._stream = stream
        self._encode = encode
        self._encode_refusal = encode_refusal
        self._closing = closing
        self._ping_s = ping_s
        self._is_new = True
        self._stack = AsyncExitStack()
        self._put, self._frames = trio.open_memory_channel[bytes](0)

    async def __aenter__(self) -> AsyncIterator[bytes]:
        # The stream is read in a task of its own: a wait that a ping interrupts would end the stream's iterator.
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(nursery.cancel_scope.cancel)
        nursery.start_soon(self._read)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if (held := HELD.get()) and not self._is_new:  # the frame before has been taken: the task with its output is the first
            held.release()
        self._is_new = False
        piece = COMMENT
        with trio.move_on_after(self._ping_s):
            try:
                piece = await self._frames.receive()
            except trio.EndOfChannel:
                raise StopAsyncIteration from None
        return piece

    async def _read(self) -> None:
        async with self._put, trio.open_nursery() as nursery:  # closing the channel ends the body
            nursery.start_soon(self._end_when_closing, nursery)
            try:
                async with self._stream as events:
                    async for event in events:
                        await self._put.send(frame(self._encode(event.item), seq=event.seq))
            except Exception as error:
                refusal, _ = as_refusal(error)
                await self._put.send(frame(self._encode_refusal(refusal), event="error"))
            nursery.cancel_scope.cancel()

    async def _end_when_closing(self, nursery: trio.Nursery) -> None:
        await self._closing.wait()
        nursery.cancel_scope.cancel()
