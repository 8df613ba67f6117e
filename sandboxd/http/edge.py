"""What is true of every request and every answer, before and after any route?

A small ASGI middleware around each `Exchange`. It takes the instance off the path, echoes the activated extensions on every
answer, and ends what is served to somebody whose credentials are gone (`presence`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, MutableMapping
from typing import Any, Final

from sandboxd.a2a.extensions import echo
from sandboxd.errors import InvalidRequest, Refusal
from sandboxd.http.answers import HOUSE, refusal_body
from sandboxd.http.head import HEAD, Head
from sandboxd.http.manners import EXTENSIONS_03
from sandboxd.http.presence import GUEST, Guest, Presence
from sandboxd.operations.unsent import HELD, Held
from sandboxd.serving.exchange import CURRENT, App, Exchange, Header, Receive, Send
from sandboxd.serving.refusals import headers_of

_ECHO = b"a2a-extensions"
_ECHO_03 = b"x-a2a-extensions"
_AGENTS: Final = "agents"  # the first step of a path that names its instance in the second


class Edge:
    """Wraps the application. `at_root_alone`: first steps of paths that are of no instance."""

    def __init__(
        self,
        app: App,
        presence: Presence,
        *,
        max_body_bytes: int,
        body_timeout_s: float = math.inf,
        at_root_alone: Collection[str] = (),
    ) -> None:
        self._app = app
        self._at_root_alone = at_root_alone
        self._presence = presence
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        held = Held()
        HELD.set(held)  # this request's task is its own, and so is its context
        try:
            await self._handle(scope, receive, send)
        finally:
            held.release()  # what was sent has been taken by the kernel, or the client is gone

    async def _handle(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, receive, send, self._max_body_bytes, self._body_timeout_s)
        if (flaw := exchange.flaw()) is not None:
            await exchange.refuse(flaw)
            return
        guest = Guest(exchange.end)
        GUEST.set(guest)  # this request's context; its handler inherits it
        HEAD.set(exchange.head)
        CURRENT.set(exchange)
        try:
            with exchange.handling:
                await self._app(self._below_instance(scope, exchange.head), exchange.receive, exchange.send)
        finally:
            self._presence.leave(guest)
        if exchange.refusal is not None and not exchange.has_answered:
            await exchange.refuse(exchange.refusal)

    def _below_instance(self, scope: MutableMapping[str, Any], head: Head) -> MutableMapping[str, Any]:
        """The request as the routes have it: without the instance that its path names, which its head keeps."""
        steps = head.path.lstrip("/").split("/", 3)  # as the routes are matched: slashes before the first step do not count
        if steps[0] != _AGENTS or len(steps) == 1 or not steps[1]:
            return scope
        if steps[2:] and (steps[2] in self._at_root_alone or (not steps[2] and steps[3:])):
            return scope  # no such path is there, nor any other below `_AGENTS`
        head.instance = steps[1]
        return {**scope, "path": "/" + "/".join(steps[2:])}


class _Exchange(Exchange):
    """One request and its answer, as the doors speak."""

    def __init__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send, max_body_bytes: int, body_timeout_s: float
    ) -> None:
        super().__init__(scope, receive, send, max_body_bytes, body_timeout_s)
        self.head = Head(scope)

    def flaw(self) -> Refusal | None:
        """Why it is refused by its headers alone."""
        if (found := super().flaw()) is None and self.head.host is None:
            return InvalidRequest("cannot read the request: its headers are ill-formed")
        return found

    async def refuse(self, refusal: Refusal) -> None:
        """Answer without the application."""
        status, media_type, body = refusal_body(refusal, self.head.speech, self.head.path)
        if status == 200:  # JSON-RPC: but this is the HTTP layer
            status = 400
        more = [(name.lower().encode(), value.encode()) for name, value in headers_of(refusal, HOUSE).items()]
        await self.say(status, media_type, body, *more)

    def more_headers(self) -> list[Header]:
        """The activated extensions, echoed."""
        if not self.head.extensions:
            return []
        value = echo(self.head.extensions).encode()
        has_03 = bool(self.head.getlist(EXTENSIONS_03))
        return [(_ECHO, value), (_ECHO_03, value)] if has_03 else [(_ECHO, value)]
