"""How do the tests of this room start a real server?"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import httpx
import trio

from sandboxd.serving.listeners import Listener, tcp_listener, unix_listener
from sandboxd.serving.peer import Peer
from sandboxd.serving.server import serve
from sandboxd.serving.settings import DoorSettings

QUICK = DoorSettings(
    keep_alive_s=0.3, stall_s=0.5, graceful_s=0.3, linger_s=0.3, half_close_s=0.3, body_timeout_s=0.3, ping_s=0.1
)
CALM = DoorSettings(graceful_s=0.3, linger_s=0.3, ping_s=0.1)  # no client of a busy machine is too slow for it


def let_in(listener: Listener, accepted: trio.socket.SocketType) -> Peer:
    return Peer(listener.door, f"uid:{os.getuid()}", open_access=True)


@attrs.frozen
class Served:
    unix: Path
    tcp: str
    closing: trio.Event
    ended: trio.Event
    clients: contextlib.AsyncExitStack  # closes what `connect` opened

    @property
    def url(self) -> str:
        return f"http://{self.tcp}"

    def unix_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(self.unix)), base_url="http://localhost")

    async def connect(self, *, receive_buffer: int | None = None) -> trio.SocketStream:
        host, port = self.tcp.rsplit(":", 1)
        sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await sock.connect((host, int(port)))
        return await self.clients.enter_async_context(trio.SocketStream(sock))

    async def connect_unix(self) -> trio.SocketStream:
        sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        await sock.connect(str(self.unix))
        return await self.clients.enter_async_context(trio.SocketStream(sock))


@contextlib.asynccontextmanager
async def served(
    app: Any,
    folder: Path,
    settings: DoorSettings = QUICK,
    *,
    who: Callable[[Listener, trio.socket.SocketType], Peer] = let_in,
    closing: trio.Event | None = None,
    waited_s: float = 0.0,
) -> AsyncIterator[Served]:
    with unix_listener(folder / "d.sock") as unix, tcp_listener("127.0.0.1", 0) as tcp:
        clients = contextlib.AsyncExitStack()
        found = Served(folder / "d.sock", tcp.address, trio.Event() if closing is None else closing, trio.Event(), clients)

        async def run() -> None:
            await serve(app, [unix, tcp], settings, closing=found.closing, who=who, waited_s=lambda: waited_s)
            found.ended.set()

        async with clients, trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield found
            found.closing.set()


async def read_all(stream: trio.SocketStream) -> bytes:
    """Until the server closes; a reset counts as an end."""
    data = b""
    with contextlib.suppress(trio.BrokenResourceError):
        while piece := await stream.receive_some():
            data += piece
    return data


async def read_answer(stream: trio.SocketStream) -> bytes:
    """One answer with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await _some(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += await _some(stream)
    return head + b"\r\n\r\n" + body


def reset_on_close(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _some(stream: trio.SocketStream) -> bytes:
    piece = bytes(await stream.receive_some())
    if not piece:
        raise EOFError("the server closed in the middle of an answer")
    return piece
