"""What is true of every request and every answer, before and after any route?

A small ASGI middleware. It counts the bytes of the body (Quart does not in every version), echoes the activated extensions on
every answer, ends what is served to somebody whose credentials are gone (`presence`), and shields an answer's last piece:
quart-trio cancels the request the moment hypercorn says that it is over, which is while that piece is being sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

import trio
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from sandboxd.a2a.extensions import activated, echo
from sandboxd.errors import InvalidRequest, Refusal, TooLarge, Unauthenticated
from sandboxd.http.answers import CHALLENGE, refusal_body
from sandboxd.http.manners import Speech, speech_of
from sandboxd.http.presence import GUEST, Guest, Presence
from sandboxd.operations.unsent import HELD, Held

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

EXTENSIONS = b"a2a-extensions"
EXTENSIONS_03 = b"x-a2a-extensions"


class Edge:
    """Wraps the application."""

    def __init__(self, app: App, presence: Presence, *, max_body_bytes: int) -> None:
        self._app = app
        self._presence = presence
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        held = Held()
        HELD.set(held)  # this request's task is its own, and so is its context
        try:
            await self._handle(scope, receive, send)
        finally:
            held.release()  # what was sent has been taken by the kernel, or the client is gone

    async def _handle(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        scope["path"] = scope["path"] or "/"  # `GET ?x`: h11 lets it pass, and Quart looks at the first character
        exchange = _Exchange(scope, receive, send, self._max_body_bytes)
        if exchange.has_two_lengths():
            why = "cannot read the body: both Transfer-Encoding and Content-Length say how long it is"
            await exchange.refuse(InvalidRequest(why))
            return
        if exchange.declares_too_much():
            await exchange.refuse(exchange.too_large())
            return
        guest = Guest(exchange.end)
        GUEST.set(guest)  # this request's context; its handler inherits it
        try:
            with exchange.handling:
                try:
                    await self._app(scope, exchange.receive, exchange.send)
                except* HTTPException:  # a `Host` that is none: raised before Quart's error handlers are in place
                    exchange.refusal = InvalidRequest("cannot read the request: its headers are ill-formed")
        finally:
            self._presence.leave(guest)
        if exchange.refusal is not None and not exchange.has_answered:
            await exchange.refuse(exchange.refusal)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send, max_body_bytes: int) -> None:
        self.handling = trio.CancelScope()
        self.refusal: Refusal | None = None  # what ends it, if it has not been answered
        self.has_answered = False
        self._scope = scope
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._body_bytes = 0

    def has_two_lengths(self) -> bool:
        """Whether somebody before us may see another end of the body than we do (request smuggling, RFC 9112 §6.1)."""
        return {b"content-length", b"transfer-encoding"} <= {name for name, _ in self._scope["headers"]}

    def declares_too_much(self) -> bool:
        """Whether `Content-Length` alone is over the limit; h11 has checked that it is a number."""
        return any(name == b"content-length" and int(value) > self._max_body_bytes for name, value in self._scope["headers"])

    async def receive(self) -> Message:
        """The next piece of the request; over the limit, the handler is cancelled (it has not seen a whole body)."""
        message = await self._receive()
        self._body_bytes += len(message.get("body", b""))
        if self._body_bytes > self._max_body_bytes:
            self.end(self.too_large())
            await trio.lowlevel.checkpoint()
        return message

    def end(self, refusal: Refusal) -> None:
        """Stop serving it. An answer that has begun breaks off, so that nobody takes it for whole."""
        self.refusal = refusal
        self.handling.cancel()

    async def send(self, message: Message) -> None:
        """The next piece of the answer."""
        if message["type"] == "http.response.start":
            self.has_answered = True
            message["headers"] = [*message["headers"], *self._echo()]
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            with trio.CancelScope(shield=True):  # bounded: a connection's `stall_s`
                await self._send(message)
        else:
            await self._send(message)

    def too_large(self) -> TooLarge:
        """The refusal of a body over the limit."""
        limit = self._max_body_bytes
        facts = {"max_bytes": limit, "bound": "max_body"}
        return TooLarge(f"cannot read the body: it is larger than {limit} bytes", facts=facts)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer without the application, and end the connection: the rest of the request is not read."""
        status, media_type, body = refusal_body(refusal, self._speech(), self._scope["path"])
        if status == 200:  # JSON-RPC: but this is the HTTP layer
            status = 400
        headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        if isinstance(refusal, Unauthenticated):
            headers.append((b"www-authenticate", CHALLENGE.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def _speech(self) -> Speech:
        headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._scope["headers"]])
        query = parse_qsl(self._scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True, max_num_fields=1000)
        return speech_of(self._scope["path"], headers, query)

    def _echo(self) -> list[tuple[bytes, bytes]]:
        lines = [
            (name, value.decode("latin-1")) for name, value in self._scope["headers"] if name in (EXTENSIONS, EXTENSIONS_03)
        ]
        value = echo(activated(text for _, text in lines)).encode()
        if not value:
            return []
        has_03 = any(name == EXTENSIONS_03 for name, _ in lines)
        return [(EXTENSIONS, value), (EXTENSIONS_03, value)] if has_03 else [(EXTENSIONS, value)]
