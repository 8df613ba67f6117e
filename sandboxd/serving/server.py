"""Who is let in at the doors, how many at once, and how do the doors close?

One accept loop a listener. A Unix peer is looked at once, when it connects (SO_PEERCRED), and what was found reaches every
request of the connection through the context variable `peer.PEER`. `serve` ends in bounded time, whatever a client does:
idle connections at once, running answers within `graceful_s` of the wish for the end, the rest by closing their sockets.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from sandboxd import metrics
from sandboxd.logs import logger
from sandboxd.serving.connection import Connection, Stream
from sandboxd.serving.exchange import App
from sandboxd.serving.listeners import Listener
from sandboxd.serving.peer import PEER, Peer
from sandboxd.serving.plain import PlainStream
from sandboxd.serving.settings import DoorSettings
from sandboxd.serving.tls import shake_hands

LEAST_S: Final = 1.0  # for the last words of runs whose end took the whole grace
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL: Final = b"HTTP/1.1 503 \r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_log = logger(__name__)


async def serve(
    app: App,
    listeners: Sequence[Listener],
    settings: DoorSettings,
    *,
    closing: trio.Event,
    who: Callable[[Listener, trio.socket.SocketType], Peer],
    waited_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Serve until `closing` is set (the streams end by it too, see `sse`) or until cancelled.

    The caller owns the listeners and closes them; nothing is accepted after `closing`. `waited_s`: for how long clients have
    been given time already when it is set; answers get the rest of `graceful_s`, and `LEAST_S` whatever that is.
    """
    server = _Server(app, settings, who)
    async with trio.open_nursery() as connections:  # one task a connection, ended below at the latest
        async with trio.open_nursery() as accepting:  # one task a listener, and one for all who are silent
            for listener in listeners:
                accepting.start_soon(server.accept, listener, connections)
            accepting.start_soon(server.end_silent)
            await closing.wait()
            accepting.cancel_scope.cancel()
        await server.end(max(settings.graceful_s - waited_s(), min(LEAST_S, settings.graceful_s)))
        connections.cancel_scope.cancel()


class _Server:
    def __init__(
        self,
        app: App,
        settings: DoorSettings,
        who: Callable[[Listener, trio.socket.SocketType], Peer],
    ) -> None:
        self._app = app
        self._settings = settings
        self._who = who
        self._context = WorkerContext(None)
        self._config = _hypercorn_config(settings)
        self._open: set[Connection] = set()
        self._taken: Counter[str] = Counter()  # by door
        self._emptied = trio.Event()

    async def accept(self, listener: Listener, connections: trio.Nursery) -> None:
        """Accept until cancelled. Out of descriptors, it waits; over `max_connections`, it says 503 and hangs up."""
        sock = trio.socket.from_stdlib_socket(listener.socket.dup())
        is_full = False
        with sock:
            while True:
                try:
                    accepted, _ = await sock.accept()
                except OSError as error:
                    if error.errno in _OUT_OF_RESOURCES:
                        _log.error("Cannot accept a connection", door=listener.door, why=error.strerror)
                        await trio.sleep(0.1)
                    continue  # anything else is about that one connection (accept(2))
                if self._taken[listener.door] < self._settings.max_connections:
                    is_full = False
                    self._taken[listener.door] += 1
                    connections.start_soon(self._serve_one, listener, accepted)
                    continue
                metrics.CONNECTIONS_REFUSED.labels(door=listener.door).inc()
                if not is_full:  # one line until there is room again
                    _log.warning("Cannot take more connections", door=listener.door, limit=self._settings.max_connections)
                is_full = True
                await _refuse(accepted)

    async def _serve_one(self, listener: Listener, accepted: trio.socket.SocketType) -> None:
        metrics.CONNECTIONS.labels(door=listener.door).inc()
        try:
            with accepted:
                peer = self._who(listener, accepted)
                stream: Stream
                if listener.tls is None:
                    stream = PlainStream(accepted)
                else:
                    try:
                        stream, name = await shake_hands(accepted, listener.tls)
                    except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                        return  # scanners and health checks of a port do that all day
                    peer = attrs.evolve(peer, certificate=name)
                PEER.set(peer)  # this task's context; its handlers inherit it
                await self._run(stream)
        except* Exception:
            _log.exception("Cannot serve a connection", door=listener.door)
        finally:
            metrics.CONNECTIONS.labels(door=listener.door).dec()
            self._taken[listener.door] -= 1

    async def _run(self, stream: Stream) -> None:
        connection = Connection(stream, self._app, self._config, self._context, self._settings)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            connection.abort()
            self._open.discard(connection)
            if not self._open:
                self._emptied.set()

    async def end_silent(self) -> None:
        """Close each connection whose client has said nothing for `keep_alive_s`, when it has; until cancelled.

        A timer of each connection's own would be moved twice a request, and hardly one ever goes off.
        """
        while True:
            now = next_look = trio.current_time()
            next_look += self._settings.keep_alive_s
            for connection in list(self._open):
                if connection.silent_until <= now:
                    connection.end_if_idle()
                else:
                    next_look = min(next_look, connection.silent_until)
            await trio.sleep_until(next_look)

    async def end(self, graceful_s: float) -> None:
        """End every connection: idle ones now, the others within `graceful_s`."""
        await self._context.terminated.set()
        for connection in list(self._open):
            connection.end_if_idle()
        self._emptied = trio.Event()
        if self._open:
            with trio.move_on_after(graceful_s):
                await self._emptied.wait()
        for connection in list(self._open):
            connection.abort()


class _Config(Config):
    """hypercorn's, with a date that is spelled once a second instead of once an answer."""

    _dated: tuple[int, list[tuple[bytes, bytes]]] = (0, [])

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """What every answer says; nobody changes it."""
        now = int(time.time())
        if now != self._dated[0]:
            self._dated = (now, super().response_headers(protocol))
        return self._dated[1]


async def _refuse(accepted: trio.socket.SocketType) -> None:
    with accepted, trio.move_on_after(0.1), contextlib.suppress(OSError):
        await accepted.send(_FULL)


def _hypercorn_config(settings: DoorSettings) -> Config:
    config = _Config()
    config.accesslog = None
    config.errorlog = None  # what is worth a line is logged here
    config.include_server_header = False
    config.keep_alive_timeout = settings.keep_alive_s
    config.keep_alive_max_requests = 1_000_000  # an SDK client that reuses its connection for ever is welcome
    return config
