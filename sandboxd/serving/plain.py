"""How does a connection without TLS reach its socket?

As trio's own stream does, but for two detours. That one looks whether there is something to read before it waits for it, which
there hardly ever is between requests: a system call and an exception for nothing. And after each piece that the kernel takes
at once it goes a round through the loop, which a short answer does not need.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

import trio

_UNSENT_BYTES: Final = 16 * 1024  # as trio has it: what the kernel holds beyond that is late news for its reader


class PlainStream:
    """An accepted connection, with what `Connection` needs of a stream. Its owner reads and sends in one task each."""

    def __init__(self, accepted: trio.socket.SocketType) -> None:
        """Take the socket over; `accepted` is as good as closed then."""
        self._socket = socket.socket(fileno=accepted.detach())
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):  # a Unix socket has neither
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)

    async def receive_some(self, max_bytes: int) -> bytes:
        """Some bytes, as soon as there are any; empty once the peer has ended its side."""
        while True:
            self._check_open()
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError from error

    def send_nowait(self, data: memoryview) -> int:
        """How many of them the kernel has taken at once."""
        self._check_open()
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: memoryview) -> None:
        """All of them."""
        await trio.lowlevel.checkpoint()
        while data := data[self.send_nowait(data) :]:
            await trio.lowlevel.wait_writable(self._socket)

    async def send_eof(self) -> None:
        """End our side."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise trio.BrokenResourceError from error

    def close(self) -> None:
        """Close it under whoever waits for it, who is told so."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.ClosedResourceError
