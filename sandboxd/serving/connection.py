"""How does one client's connection speak HTTP/1.1, and how does it end?

hypercorn's protocol over h11 on a connection of our own, since its TCP server has holes that no setting closes: a
client that never reads holds up the shutdown for ever, an idle connection is never closed, HTTP/2 in clear text cannot be
turned off and has no back pressure, and the end of a request waits on a full queue. Here every wait has a bound:

* silence between requests: `keep_alive_s`; a piece that the client does not take: `stall_s`
* the rest of a body that nobody wants: `linger_s`; everything, at shutdown: `abort()` closes the socket under it
* the answer to a client that has ended its side, which may be one that has left: `half_close_s` until it begins
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, Protocol

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from sandboxd import metrics
from sandboxd.serving.exchange import App
from sandboxd.serving.handling import Handling, Wire
from sandboxd.serving.settings import DoorSettings

PIECE_BYTES: Final = 64 * 1024
_LINGER_BYTES: Final = 4 * 1024 * 1024
_NO_APP: Final[Any] = None


class Stream(Protocol):
    """What a connection needs: a socket as it is (`plain`), or with TLS (`tls`)."""

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        """Some bytes; empty once the peer has ended its side."""

    def send_nowait(self, data: memoryview) -> int:
        """How many of them are taken at once."""

    async def send_all(self, data: memoryview) -> None:
        """All of them."""

    async def send_eof(self) -> None:
        """End our side."""

    def close(self) -> None:
        """Close it under whoever waits for it, who is told so."""


class Connection:
    """One accepted stream; `run` returns when it is closed and its request, if one runs, has ended."""

    def __init__(self, stream: Stream, app: App, config: Config, context: WorkerContext, settings: DoorSettings):
        self._stream = stream
        self._app = app
        self._config = config
        self._context = context  # its `terminated`: the answer that runs is this connection's last
        self._settings = settings
        self._reading = trio.CancelScope()
        self.silent_until = math.inf  # the patience with a client that asks nothing; whoever watches ends it then
        self._sending = trio.Lock()
        self._is_lingering = False
        self._phase: Literal["idle", "asked", "answering", "streaming"] = "idle"
        self._changed: trio.Event | None = None  # there while somebody waits for another phase

    async def run(self) -> None:
        """Serve requests until either side closes."""
        try:
            async with trio.open_nursery() as nursery:  # the request's handler; it ends before its connection does
                begin = self._begin_to_handle(nursery)
                self._protocol = _Http1(self._config, self._context, self._send, self._send_nowait, begin)
                self._set_idle(True)
                with self._reading:
                    await self._read()
                with trio.CancelScope(shield=True):
                    await self._protocol.handle(Closed())  # a running handler learns that its client is gone
        finally:
            self.abort()

    def _begin_to_handle(self, nursery: trio.Nursery) -> Callable[[h11.Request, Wire], Handling]:
        def begin(request: h11.Request, wire: Wire) -> Handling:
            handling = Handling(request, wire, self._enter)
            nursery.start_soon(handling.run, self._app)
            return handling

        return begin

    def end_if_idle(self) -> None:
        """Close now if no request runs."""
        if self._phase == "idle":
            self._reading.cancel()

    def abort(self) -> None:
        """Close the socket under whoever reads or writes; the handler learns that its client is gone."""
        self._stream.close()
        self._reading.cancel()

    async def _read(self) -> None:
        while True:
            try:
                data = bytes(await self._stream.receive_some(PIECE_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if self._is_lingering:
                await self._linger(len(data))
                return
            if not data:
                await self._outlast_half_close()
            await self._protocol.handle(RawData(data))
            if not data:
                return

    async def _outlast_half_close(self) -> None:
        """A client may end its side and still want its answer (`nc -N`, RFC 9112 §9.6), but for a stream, which it watches."""
        with trio.move_on_after(self._settings.half_close_s):
            while self._phase == "asked":
                await self._next_phase()
        while self._phase == "answering":  # bounded: each piece by `stall_s`
            await self._next_phase()

    async def _next_phase(self) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def _enter(self, phase: Literal["idle", "asked", "answering", "streaming"]) -> None:
        self._phase = phase
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _linger(self, seen: int) -> None:
        """Read and drop what the client still sends: closing on unread bytes resets, and it would never see our answer."""
        size = seen
        try:
            while seen and size < _LINGER_BYTES and (data := await self._stream.receive_some(PIECE_BYTES)):
                size += len(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _send(self, event: Event) -> None:
        match event:
            case RawData(data=data):
                await self._send_data(memoryview(data))
            case Updated(idle=idle):
                self._set_idle(idle)
            case Closed():
                self._enter("idle")
                await self._end()

    async def _send_data(self, data: memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            # A short answer is nearly always taken at once, and nobody is in the middle of another.
            sent = 0 if self._sending.locked() else self._stream.send_nowait(data[:PIECE_BYTES])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.abort()
            return
        if sent < len(data):
            # Shielded: a handler that is cancelled in the middle of a piece must not leave half of it on the wire.
            with trio.CancelScope(shield=bool(sent)):
                async with self._sending:
                    await self._send_pieces(data[sent:])

    def _send_nowait(self, data: bytes) -> int:
        """How many of these bytes the kernel takes at once: none in the middle of another piece, or at the end."""
        if self._sending.locked() or self._is_lingering:
            return 0
        try:
            return self._stream.send_nowait(memoryview(data)[:PIECE_BYTES])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return 0  # whoever sends it then finds out

    async def _send_pieces(self, data: memoryview) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            with trio.CancelScope(deadline=trio.current_time() + self._settings.stall_s, shield=True) as patience:
                try:
                    await self._stream.send_all(data[start : start + PIECE_BYTES])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    break
            if patience.cancelled_caught:
                break
        else:
            return
        self.abort()

    async def _end(self) -> None:
        """Our side is done: say so, and give the client `linger_s` to take it and to stop sending."""
        self._is_lingering = True
        self.silent_until = math.inf
        # Shielded: hypercorn tells the request that it is over before it calls this, and that cancels what is left of it.
        with trio.CancelScope(shield=True):  # bounded: each piece by `stall_s`
            async with self._sending:  # a malformed request may come while an earlier one is still answered
                try:
                    await self._stream.send_eof()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.abort()
        self._reading.deadline = trio.current_time() + self._settings.linger_s

    def _set_idle(self, idle: bool) -> None:
        self._enter("idle" if idle else "asked")
        if not self._is_lingering:
            self.silent_until = trio.current_time() + self._settings.keep_alive_s if idle else math.inf


class _Http1(H11Protocol):
    """HTTP/1.0 and 1.1 alone; a wish to `Upgrade`, to h2c or to WebSocket, is ignored, as RFC 9110 §7.8 allows.

    The head of an answer whose length it names goes out with what follows it, in one piece: a send each would be a tenth of
    what a short answer costs. A stream's goes at once.
    """

    def __init__(
        self,
        config: Config,
        context: WorkerContext,
        send: Callable[[Event], Awaitable[None]],
        send_nowait: Callable[[bytes], int],
        begin_to_handle: Callable[[h11.Request, Wire], Handling],
    ) -> None:
        # Application and task group are for a way of handling requests that is not taken.
        super().__init__(_NO_APP, config, context, TaskGroup(), ConnectionState({}), False, None, None, send)
        self._begin_to_handle = begin_to_handle
        self._send_nowait = send_nowait
        self._head = b""
        self._begun = b""  # a piece of a body: what is unsent of it is in `_head`

    async def _send_h11_event(self, event: Any) -> None:
        try:
            data = self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response) and any(name == b"content-length" for name, _ in event.headers):
            self._head = data
            return
        whole, self._head = self._head + data, b""
        if whole:
            await self.send(RawData(data=whole))

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _send_error_response(self, status_code: int) -> None:
        if status_code == 431:
            metrics.BOUNDS.labels(bound="max_header").inc()
        await super()._send_error_response(status_code)

    async def _create_stream(self, request: h11.Request) -> None:
        if request.http_version not in (b"1.0", b"1.1"):  # `PRI * HTTP/2.0`: prior knowledge
            await self._send_error_response(505)
            await self.send(Closed())
            return
        handling: Any = self._begin_to_handle(request, self)
        self.stream = handling  # in place of hypercorn's own: it has what is called of it
        self.keep_alive_requests += 1

    # ── as `Wire` ──

    async def begin(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._begun = b""  # of an answer that ended before its piece came by `go_on`: this one may hold the same
        told = [*headers, *self.config.response_headers("h11")]
        if self.keep_alive_requests >= self.config.keep_alive_max_requests:
            told.append((b"connection", b"close"))
        await self._send_h11_event(h11.Response(status_code=status, headers=told))

    def go_on_nowait(self, data: bytes) -> bool:
        if self._begun or self.connection.our_state is not h11.SEND_BODY:
            return False
        whole = self._head + (self.connection.send(h11.Data(data=data)) or b"")
        self._head = whole[self._send_nowait(whole) :]
        self._begun = data if self._head else b""
        return not self._head

    async def go_on(self, data: bytes) -> None:
        if self._begun and data == self._begun:
            self._begun = data = b""
        await self._send_h11_event(h11.Data(data=data))

    async def finish(self) -> None:
        await self._send_h11_event(h11.EndOfMessage())
        await self._maybe_recycle()

    async def break_off(self) -> None:
        if self.connection.our_state is h11.SEND_RESPONSE:
            await self._send_error_response(500)
        await self._maybe_recycle()
