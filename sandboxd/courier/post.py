"""How is one notification sent, and to which address?

The name is resolved for every connection, all of its addresses are judged, and the connection goes to one of those that were
judged (`targets`). No redirect is followed, no proxy is asked, and of an answer nothing counts but its status.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable, Sequence
from typing import Any, Final

import httpcore
import trio

from sandboxd.courier.frames import CONNECT_S, TOTAL_S
from sandboxd.targets import BadTarget, Target, Targets
from sandboxd.values import frozen

_ANSWER_MAX_BYTES: Final = 64 * 1024
_KEEP_ALIVE_S: Final = 5.0
_SocketOptions = Iterable[tuple[Any, ...]]


@frozen
class Sent:
    """The receiver's status; `failed`: why there is none; `refused`: why it never will be sent there."""

    status: int | None = None
    failed: str = ""
    refused: str = ""


class Poster:
    """Sends notifications; an async context manager."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=64,
            keepalive_expiry=_KEEP_ALIVE_S,
            network_backend=_Pinned(targets),
        )

    async def __aenter__(self) -> Poster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.aclose()

    async def post(self, url: str, headers: Sequence[Sequence[str]], body: bytes) -> Sent:
        """Send it once, within `TOTAL_S`."""
        try:
            target = self._targets.read(url)
            with trio.move_on_after(TOTAL_S):
                return await self._post(target, headers, body)
            return Sent(failed=f"no answer within {TOTAL_S:.0f} s")
        except BadTarget as error:
            return Sent(refused=str(error))
        except (httpcore.ConnectTimeout, httpcore.PoolTimeout):
            return Sent(failed=f"no connection within {CONNECT_S:.0f} s")
        except (OSError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Sent(failed=f"{type(error).__name__}: {error}"[:500])

    async def look(self, url: str) -> str | None:
        """Why nothing may go to that URL, by the addresses of its name; None: it may, or its name leads nowhere yet."""
        try:
            target = self._targets.read(url)
        except BadTarget as error:
            return str(error)
        try:
            with trio.move_on_after(CONNECT_S):
                await resolve(self._targets, target.host, target.port)
        except BadTarget:  # which address it is tells a client of the network behind us
            return f"`{target.host}` leads to an address that is not public, and that the config's `push.allow` does not name"
        except OSError:
            return None
        return None

    async def _post(self, target: Target, headers: Sequence[Sequence[str]], body: bytes) -> Sent:
        where = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        lines = [(b"host", target.authority.encode()), *((name.encode(), value.encode()) for name, value in headers)]
        timeouts = {"connect": CONNECT_S, "read": TOTAL_S, "write": TOTAL_S, "pool": CONNECT_S}
        async with self._pool.stream("POST", where, headers=lines, content=body, extensions={"timeout": timeouts}) as answer:
            size = 0
            async for piece in answer.aiter_stream():  # a short one is read, so that the connection can be used again
                size += len(piece)
                if size > _ANSWER_MAX_BYTES:
                    break
            return Sent(status=answer.status)


async def resolve(targets: Targets, host: str, port: int) -> tuple[str, ...]:
    """The host's addresses, every one of them allowed; `BadTarget` when one is not, `OSError` when there is none."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in addresses:
        targets.check(ipaddress.ip_address(address.partition("%")[0]))
    return addresses


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were judged, never to a name."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._trio = httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: _SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Try the addresses in turn, all within one time limit."""
        failure: Exception = httpcore.ConnectError("the name has no address")
        with trio.move_on_after(CONNECT_S):
            for address in await resolve(self._targets, host, port):
                try:
                    return await self._trio.connect_tcp(address, port, CONNECT_S)
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    failure = error
            raise failure
        raise httpcore.ConnectTimeout(f"no connection within {CONNECT_S:.0f} s")

    async def sleep(self, seconds: float) -> None:
        """Between the pool's own tries."""
        await trio.sleep(seconds)
