"""How many requests a second does a server answer, and how late?

One thread, one selector, kept connections, prepared bytes: much cheaper than the servers that it drives.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

import attrs


@attrs.frozen
class Load:
    """What came of it. `late_s`: of each answer, in the order that they came."""

    seconds: float
    late_s: tuple[float, ...]

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.late_s) / self.seconds


@attrs.define
class _Client:
    sock: socket.socket
    sent_at: float = 0.0
    got: bytearray = attrs.field(factory=bytearray)


def request(port: int, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """A POST as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def drive(port: int, make: Callable[[], bytes], *, connections: int, seconds: float) -> Load:
    """Keep `connections` requests in flight for that long. `make` prepares one request; each answer must be a 200."""
    late: list[float] = []
    with selectors.DefaultSelector() as selector:
        clients = [_Client(socket.create_connection(("127.0.0.1", port))) for _ in range(connections)]
        try:
            for client in clients:
                client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(client.sock, selectors.EVENT_READ, client)
                client.sent_at = time.perf_counter()
                client.sock.sendall(make())
            began = time.perf_counter()
            while (now := time.perf_counter()) < began + seconds:
                for key, _ in selector.select(1):
                    client = key.data
                    client.got += client.sock.recv(65536)
                    if not _is_whole(client.got):
                        continue
                    now = time.perf_counter()
                    late.append(now - client.sent_at)
                    client.got.clear()
                    client.sent_at = now
                    client.sock.sendall(make())
            return Load(now - began, tuple(late))
        finally:
            for client in clients:
                client.sock.close()


def _is_whole(data: bytearray) -> bool:
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return False
    if b" 200 " not in head[:20]:
        raise RuntimeError(f"an answer that is no 200: {bytes(data)[:500]!r}")
    lower = bytes(head).lower()
    _, _, rest = lower.partition(b"content-length:")
    return len(body) >= int(rest.split(b"\r\n")[0]) if rest else body.endswith(b"0\r\n\r\n")
