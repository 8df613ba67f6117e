"""What is true of every request's body and every answer, whoever serves it?

It counts the bytes of the body (Quart does not in every version), and can end a request from outside.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

import trio
from werkzeug.exceptions import RequestTimeout

from sandboxd.errors import InvalidRequest, Refusal, TooLarge

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
Header = tuple[bytes, bytes]
# Extensions of ASGI, by `connection`.
HAS_ARRIVED: Final = "sandboxd.has_arrived"  # whether the next piece of the request is there
SEND_NOWAIT: Final = "sandboxd.send_nowait"  # as `Wire.go_on_nowait`
WHEN_LEFT: Final = "sandboxd.when_left"  # takes what is to be called once the client has left


class Exchange:
    """One request and its answer; what an application's own edge adds stands in its subclass."""

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        max_body_bytes: int,
        body_timeout_s: float = math.inf,
    ) -> None:
        self.handling = trio.CancelScope()
        self.refusal: Refusal | None = None  # what ends it, if it has not been answered
        self.has_answered = False
        self.scope = scope
        scope["path"] = _path_of(scope["path"])
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s
        self._body_bytes = 0
        self._body: bytes | None = None
        self._is_ending = False

    def flaw(self) -> Refusal | None:
        """Why it is refused by its headers alone."""
        size: int | None = None
        is_coded = False
        for name, value in self.scope["headers"]:
            if name == b"content-length":
                size = int(value)  # h11 has checked that it is a number, and the only one
            elif name == b"transfer-encoding":
                is_coded = True
        # Somebody before us may see another end of the body than we do (request smuggling, RFC 9112 §6.1).
        if is_coded and size is not None:
            return InvalidRequest("cannot read the body: both Transfer-Encoding and Content-Length say how long it is")
        return self.too_large() if size is not None and size > self._max_body_bytes else None

    async def receive(self) -> Message:
        """The next piece of the request; over the limit, the handler is cancelled (it has not seen a whole body)."""
        message = await self._receive()
        self._body_bytes += len(message.get("body", b""))
        if self._body_bytes > self._max_body_bytes:
            self.end(self.too_large())
            await trio.lowlevel.checkpoint()
        return message

    async def body(self) -> bytes:
        """All of the body; `RequestTimeout` when it is not there in time. It is kept."""
        if self._body is None:
            pieces: list[bytes] = []
            has_more = True
            while has_more and self.scope["extensions"][HAS_ARRIVED]():  # a short body, whole: there is no wait to bound
                has_more = await self._take_piece(pieces)
            if has_more:
                with trio.move_on_after(self._body_timeout_s) as patience:
                    while await self._take_piece(pieces):
                        pass
                if patience.cancelled_caught:
                    raise RequestTimeout
            self._body = b"".join(pieces)
        return self._body

    async def _take_piece(self, pieces: list[bytes]) -> bool:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            self.handling.cancel()
            await trio.lowlevel.checkpoint()
        pieces.append(message.get("body", b""))
        more: bool = message.get("more_body", False)
        return more

    def end_when_left(self) -> None:
        """Stop serving it once its client has left, but for an answer whose last piece is on its way."""
        when_left: Callable[[Callable[[], None]], None] = self.scope["extensions"][WHEN_LEFT]
        when_left(self._leave)

    def _leave(self) -> None:
        if not self._is_ending:
            self.handling.cancel()

    def end(self, refusal: Refusal) -> None:
        """Stop serving it. An answer that has begun breaks off, so that nobody takes it for whole."""
        self.refusal = refusal
        self.handling.cancel()

    async def send(self, message: Message) -> None:
        """The next piece of the answer."""
        if message["type"] == "http.response.start":
            self.has_answered = True
            message["headers"] = [*message["headers"], *self.more_headers()]
        elif not message.get("more_body", False):
            self._is_ending = True
        await self._send(message)

    def send_nowait(self, piece: bytes) -> bool:
        """Whether this piece of a body was sent, all of it, without a wait; else the same is to follow by `send`."""
        send: Callable[[bytes], bool] = self.scope["extensions"][SEND_NOWAIT]
        return not self.handling.cancel_called and send(piece)

    def more_headers(self) -> list[Header]:
        """What every answer says."""
        return []

    def too_large(self) -> TooLarge:
        """The refusal of a body over the limit."""
        limit = self._max_body_bytes
        facts = {"max_bytes": limit, "bound": "max_body"}
        return TooLarge(f"cannot read the body: it is larger than {limit} bytes", facts=facts)

    async def say(self, status: int, media_type: str, body: bytes, *more: Header) -> None:
        """Answer without the application, and end the connection: the rest of the request is not read."""
        headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *more,
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})


def _path_of(target: str) -> str:
    """Of `http://host/path` (RFC 9112 §3.2.2) what follows the host, whatever that is; of `?x`, which h11 lets pass, `/`."""
    _, is_absolute, rest = target.partition("://")
    if not target.startswith("/") and is_absolute:
        _, slash, path = rest.partition("/")
        return slash + path or "/"
    return target or "/"


CURRENT: ContextVar[Exchange] = ContextVar("CURRENT")  # of the request whose context it is
