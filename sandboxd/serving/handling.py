"""How does one request reach an ASGI application, and what that says the client?

In the place of hypercorn's `HTTPStream` and task group, which lose the news of a client that is gone, and make an object for
each step of a request's way: what the application says goes straight to h11, what the client sends straight to the
application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol
from urllib.parse import unquote

import h11
import trio
from hypercorn.protocol.events import Body, EndBody, StreamClosed
from hypercorn.utils import suppress_body

from sandboxd.logs import logger
from sandboxd.serving.exchange import HAS_ARRIVED, SEND_NOWAIT, WHEN_LEFT, App

_INBOX_MESSAGES: Final = 4  # of at most 64 KiB each: the body waits in the kernel, not here

_log = logger(__name__)


class Wire(Protocol):
    """The connection that a request came by, as far as its answer needs it."""

    async def begin(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the head of an answer, perhaps with what follows it."""

    async def go_on(self, data: bytes) -> None:
        """Send more of its body."""

    def go_on_nowait(self, data: bytes) -> bool:
        """Whether more of its body was sent, all of it, without a wait; else the same data is to follow by `go_on`."""

    async def finish(self) -> None:
        """It is whole; the next request may come."""

    async def break_off(self) -> None:
        """It will not be whole, so the connection ends; a 500 says so where nothing of it was said."""


class Handling:
    """One request; `run` ends when the application is done with it, and `enter` hears how far its answer is."""

    def __init__(self, request: h11.Request, wire: Wire, enter: Callable[[Literal["answering", "streaming"]], None]) -> None:
        path, _, query_string = request.target.partition(b"?")
        self._inbox = _Inbox()
        self._method = request.method.decode("ascii").upper()
        self._scope = {
            "type": "http",
            "http_version": request.http_version.decode(),
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "method": self._method,
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query_string,
            "root_path": "",
            "headers": [(name, value) for name, value in request.headers if name != b"upgrade"],
            "client": None,
            "server": None,
            "state": {},
            "extensions": {
                WHEN_LEFT: self._inbox.when_left,
                HAS_ARRIVED: self._inbox.has_arrived,
                SEND_NOWAIT: self._send_nowait,
            },
        }
        self._wire = wire
        self._enter = enter
        self._status: int | None = None  # of the answer, once there is one
        self._is_whole = False
        self._is_closed = False

    async def run(self, app: App) -> None:
        """Have it handled. An answer that is left unfinished breaks off, and one that was not begun is a 500."""
        try:
            await app(self._scope, self._inbox.get, self._send)
        except* Exception:  # the door translates every error of ours; this is for the stack's own
            _log.exception("Cannot finish a request", path=self._scope["path"])
        finally:
            self._inbox.close()
            if not self._is_whole and not self._is_closed:
                with trio.CancelScope(shield=True):  # bounded by `stall_s`: it writes at most an error's few bytes
                    await self._wire.break_off()

    async def handle(self, event: Body | EndBody | StreamClosed) -> None:
        """More of the request, or its end: called by hypercorn's protocol."""
        if self._is_closed:
            return
        match event:
            case Body(data=data):
                await self._inbox.put({"type": "http.request", "body": bytes(data), "more_body": True})
            case EndBody():
                await self._inbox.put({"type": "http.request", "body": b"", "more_body": False})
            case StreamClosed():
                self._is_closed = True
                self._inbox.leave()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = int(message["status"])
            types = [value for name, value in message["headers"] if name.lower() == b"content-type"]
            self._enter("streaming" if any(value.startswith(b"text/event-stream") for value in types) else "answering")
            await self._wire.begin(self._status, message["headers"])
            return
        assert self._status is not None
        data, is_last = message.get("body", b""), not message.get("more_body", False)
        if data and not suppress_body(self._method, self._status):
            await self._wire.go_on(bytes(data))
        if is_last:
            await self._wire.finish()
        self._is_whole = is_last

    def _send_nowait(self, data: bytes) -> bool:
        is_streaming = self._status is not None and not self._is_whole and not self._is_closed
        if not is_streaming or suppress_body(self._method, self._status or 0):
            return False
        return self._wire.go_on_nowait(data)


class _Inbox:
    """What the client sends, on its way to the handler. The news that it is gone never waits behind a full queue."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._changed: trio.Event | None = None  # there while somebody waits: hardly ever, for a short body comes with its head
        self._has_left = False
        self._is_closed = False
        self._when_left: Callable[[], None] = _nothing

    def when_left(self, act: Callable[[], None]) -> None:
        """Have that called once the client is gone, or the request over."""
        self._when_left = act
        if self._has_left:
            act()

    def has_arrived(self) -> bool:
        """Whether `get` has something at once."""
        return bool(self._messages) or self._has_left or self._is_closed

    def leave(self) -> None:
        """The client is gone, or the request over."""
        self._has_left = True
        self._tell()
        self._when_left()

    async def put(self, message: Any) -> None:
        while len(self._messages) >= _INBOX_MESSAGES and not self._is_over():
            await self._next_change()
        if not self._is_over():  # else the handler has answered already, or the client is gone
            self._messages.append(message)
            self._tell()

    async def get(self) -> Any:
        while not self.has_arrived():
            await self._next_change()
        if not self._messages:
            return {"type": "http.disconnect"}
        self._tell()
        return self._messages.popleft()

    def close(self) -> None:
        """The request is over, and holds on to nothing that holds on to this: cycles are left to a search, which stops all."""
        self._is_closed = True
        self._when_left = _nothing
        self._messages.clear()
        self._tell()

    def _is_over(self) -> bool:
        return self._has_left or self._is_closed

    async def _next_change(self) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def _nothing() -> None:
    pass
