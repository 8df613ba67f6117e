"""How does a task's news flow to a client that listens?

Server-sent events: `id:` is the sequence number, one `data: ` line, a comment after every `ping_s` of silence. A stream reads
its own subscription at the pace of its own client, with at most one frame in hand. What goes wrong after the first byte is an
`event: error`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import quart
import trio

from sandboxd.a2a.model import StreamItem
from sandboxd.errors import InvalidParams, Problem, Refusal
from sandboxd.http.answers import as_refusal
from sandboxd.operations.stream import MessageEvent, Stream, StreamEvent
from sandboxd.operations.unsent import HELD
from sandboxd.serving.streaming import Tell, event, stream_answer

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


def event_stream(
    stream: Stream,
    *,
    encode: Callable[[StreamItem], Any],
    encode_refusal: Callable[[Refusal], Any],
    closing: trio.Event,
    ping_s: float,
) -> quart.Response:
    """The answer that streams; `stream` is entered when its body is sent, and left with it."""

    async def source(tell: Tell) -> None:
        frames = _Frames(encode)
        stream.on_expected = frames.make
        stream.on_told = lambda one: frames.has_sent(one, tell)
        try:
            async with stream as events:
                async for one in events:
                    await tell(frames.of(one))
        except Exception as error:
            refusal, _ = as_refusal(error)
            await tell(event(encode_refusal(refusal), name="error"))

    return stream_answer(source, closing=closing, ping_s=ping_s, on_taken=_release)


class _Frames:
    """The frames of one stream; that of what is expected is made while nothing is to be told."""

    def __init__(self, encode: Callable[[StreamItem], Any]) -> None:
        self._encode = encode
        self._made: tuple[StreamEvent, bytes] | None = None

    def make(self, expected: StreamEvent) -> None:
        """Beforehand; it may not come."""
        self._made = expected, self._frame(expected)

    def has_sent(self, one: StreamEvent, tell: Tell) -> bool:
        """Whether it was made, and has been sent now."""
        if self._made is None or self._made[0] is not one or not tell.at_once(self._made[1]):
            return False
        self._made = None
        return True

    def of(self, one: StreamEvent | MessageEvent) -> bytes:
        """The frame that tells it."""
        made, self._made = self._made, None
        return made[1] if made is not None and made[0] is one else self._frame(one)

    def _frame(self, one: StreamEvent | MessageEvent) -> bytes:
        return event(self._encode(one.item), number=one.seq)


def _release() -> None:
    if held := HELD.get():  # what has been taken holds no room: the first frame, the task with its output, is the large one
        held.release()
