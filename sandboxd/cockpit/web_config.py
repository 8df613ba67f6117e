"""At which sockets does a cockpit meet people, and whom does it believe about who they are? (`[web]` of its config)"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs

from sandboxd.config_doors import TcpAddress, Tls, read_path, read_tcp, read_tls
from sandboxd.errors import LoadError
from sandboxd.policy.table import Table
from sandboxd.serving.bearer import digest_of, read_token
from sandboxd.values import frozen

SESSION_S: Final = 12 * 3600.0  # a working day
_UNIX_MAX_BYTES: Final = 107  # unix(7)
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


@frozen
class Proxy:
    """A proxy that signs people in: it names them in `header`, and proves itself by a secret in `Sandboxd-Proxy`.

    Without the secret, everybody on this machine could connect and name whom they like.
    """

    header: str
    digest: bytes = attrs.field(repr=False)


@frozen
class Web:
    """Where people come in. `public_url`: by which URL browsers reach it, where that is not the listener's own; no path."""

    tcp: TcpAddress | None = None
    unix: Path | None = None
    tls: Tls | None = None
    public_url: str | None = None
    proxy: Proxy | None = None
    session_s: float = SESSION_S


def read_web(table: Table, folder: Path) -> Web:
    """The `[web]` table."""
    tcp = read_tcp(table) if table.has("tcp") else None
    unix = read_path(table, "unix", folder) if table.has("unix") else None
    if tcp is None and unix is None and not table.has("tcp"):
        table.problem("tcp", "is missing: name an address, or a `unix` socket")
    if unix is not None and (size := len(str(unix).encode())) > _UNIX_MAX_BYTES:
        table.problem("unix", f"the path has {size} bytes, and a unix socket's name has at most {_UNIX_MAX_BYTES}")
    tls = read_tls(table.table("tls"), folder) if table.has("tls") else None
    if tcp is not None and tls is None and not tcp.is_loopback:
        why = "clear text is for loopback only; add `[web.tls]`, or put a TLS proxy before a loopback address"
        table.problem("tcp", f"`{tcp}` can be reached from elsewhere: {why}")
    session_s = table.duration("session", SESSION_S, least_s=60)
    web = Web(tcp, unix, tls, _read_public_url(table), _read_proxy(table, folder), session_s)
    table.close()
    return web


def _read_public_url(table: Table) -> str | None:
    if not table.has("public-url"):
        return None
    url = table.text("public-url").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
        table.problem("public-url", "must be a scheme and a host, such as `https://cockpit.example`")
        return None
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _read_proxy(table: Table, folder: Path) -> Proxy | None:
    if not table.has("proxy"):
        return None
    inner = table.table("proxy")
    header = inner.text("header")
    if header and not _HEADER.fullmatch(header):
        inner.problem("header", "is no name of a header")
    digest = b""
    try:
        digest = digest_of(read_token(read_path(inner, "secret-file", folder)))
    except LoadError as error:
        inner.problem("secret-file", "; ".join(problem.reason for problem in error.problems))
    inner.close()
    return Proxy(header, digest)
