"""How does a TCP connection speak TLS?

TLS 1.2 and up, HTTP/1.1 alone. With `client_ca`, a client without a certificate that this CA signed does not get past the
handshake; its certificate's common name then says who it is, if the token book knows it. Certificates are read at start
and at a reload: connections that are there keep the one that they began with.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from sandboxd.config_doors import Tls
from sandboxd.serving.private_file import read_private, unusable, why

HANDSHAKE_S: Final = 10.0  # nginx: 60 s; a client that is slower than this holds a connection for nothing


class TlsStream:
    """An accepted connection after its handshake, with what `Connection` needs of a stream."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        """Some bytes; empty once the peer has ended its side."""
        return await self._stream.receive_some(max_bytes)

    def send_nowait(self, data: memoryview) -> int:
        """None of them: what is encrypted has to be sent."""
        return 0

    async def send_all(self, data: memoryview) -> None:
        """All of them."""
        await self._stream.send_all(data)

    async def send_eof(self) -> None:
        """End our side. Of TCP alone: TLS has no half-closed state, and HTTP says itself where an answer ends."""
        await self._stream.transport_stream.send_eof()

    def close(self) -> None:
        """Close the socket under whoever waits for it, who is told so."""
        self._stream.transport_stream.socket.close()


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What the listener speaks with; `LoadError` names the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    read_private(tls.key)  # whoever reads it can be this host
    _load(tls.cert, lambda: context.load_cert_chain(tls.cert, tls.key, password=_no_password))
    if tls.client_ca is not None:
        client_ca = tls.client_ca
        _load(client_ca, lambda: context.load_verify_locations(client_ca))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def shake_hands(accepted: trio.socket.SocketType, context: ssl.SSLContext) -> tuple[TlsStream, str | None]:
    """The stream, and the common name in the client's certificate; `trio.BrokenResourceError`, `trio.TooSlowError`."""
    stream = trio.SSLStream(trio.SocketStream(accepted), context, server_side=True, https_compatible=True)
    with trio.fail_after(HANDSHAKE_S):
        await stream.do_handshake()
    return TlsStream(stream), common_name(stream.getpeercert())


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The subject's common name, if it has exactly one."""
    subject = (certificate or {}).get("subject", ())
    names = [value for parts in subject for name, value in parts if name == "commonName"]
    return str(names[0]) if len(names) == 1 else None


def _load(path: Path, load: Any) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise unusable(path, f"it cannot be used: {error.reason or error}") from error
    except OSError as error:
        raise unusable(path, why(error)) from error


def _no_password() -> str:
    return ""  # an encrypted key is refused, instead of asking at a terminal that a service has not
