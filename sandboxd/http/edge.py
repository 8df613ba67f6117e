"""What is true of every request and every answer, before and after any route?

A small ASGI middleware around each `Exchange`. It echoes the activated extensions on every answer, and ends what is served to
somebody whose credentials are gone (`presence`).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from sandboxd.a2a.extensions import activated, echo
from sandboxd.errors import InvalidRequest, Refusal
from sandboxd.http.answers import HOUSE, refusal_body
from sandboxd.http.manners import Speech, speech_of
from sandboxd.http.presence import GUEST, Guest, Presence
from sandboxd.operations.unsent import HELD, Held
from sandboxd.serving.exchange import App, Exchange, Header, Receive, Send
from sandboxd.serving.refusals import headers_of

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
        if (flaw := exchange.flaw()) is not None:
            await exchange.refuse(flaw)
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


class _Exchange(Exchange):
    """One request and its answer, as the doors speak."""

    async def refuse(self, refusal: Refusal) -> None:
        """Answer without the application."""
        status, media_type, body = refusal_body(refusal, self._speech(), self.scope["path"])
        if status == 200:  # JSON-RPC: but this is the HTTP layer
            status = 400
        more = [(name.lower().encode(), value.encode()) for name, value in headers_of(refusal, HOUSE).items()]
        await self.say(status, media_type, body, *more)

    def _speech(self) -> Speech:
        headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.scope["headers"]])
        query = parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True, max_num_fields=1000)
        return speech_of(self.scope["path"], headers, query)

    def more_headers(self) -> list[Header]:
        """The activated extensions, echoed."""
        lines = [
            (name, value.decode("latin-1")) for name, value in self.scope["headers"] if name in (EXTENSIONS, EXTENSIONS_03)
        ]
        value = echo(activated(text for _, text in lines)).encode()
        if not value:
            return []
        has_03 = any(name == EXTENSIONS_03 for name, _ in lines)
        return [(EXTENSIONS, value), (EXTENSIONS_03, value)] if has_03 else [(EXTENSIONS, value)]
