"""Who is asking, and may they?

* Unix socket: root and the daemon's own uid, told by the kernel. Tasks run under the daemon's uid, so a peer with the spawner
  among its ancestors is refused, and so is one that is gone and can no longer be looked at.
* TCP: a bearer token; each token file is a principal, `token:NAME` by the file's name.
* TCP without credentials, where the config says so: loopback only; `Host` and `Origin` must name this machine, else any web
  page could use the door through its visitor's browser (DNS rebinding).

Principals are names for the record and for logs: `uid:0`, `token:default`, `anyone`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import socket
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Final, Protocol

import attrs
import trio

from sandboxd.errors import Forbidden, Unauthenticated
from sandboxd.http.ancestry import judge, peer_credentials, peer_pidfd, read_stat
from sandboxd.http.listeners import Door, Listener, is_loopback
from sandboxd.http.tokens import Token
from sandboxd.logs import logger

ANYONE: Final = "anyone"
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://" + _HOST.pattern)

_log = logger(__name__)


@attrs.frozen
class Peer:
    """The other end of a connection. `refusal`: why a Unix peer may not come in; empty: it may."""

    door: Door
    principal: str | None = None
    refusal: str = ""
    open_access: bool = False


PEER: ContextVar[Peer] = ContextVar("PEER")


class Headers(Protocol):
    """The request's headers, as far as they are needed here."""

    def get(self, key: str, /) -> str | None:
        """The value of a header, or None."""


@attrs.frozen
class Gate:
    """Knows who may come in. `spawner_pid` gives the spawner's process id, None while there is none."""

    tokens: Sequence[Token]
    spawner_pid: Callable[[], int | None]
    own_uid: int = attrs.field(factory=os.getuid)

    def meet(self, listener: Listener, accepted: trio.socket.SocketType) -> Peer:
        """Look at a new connection, once."""
        if listener.door == "tcp":
            return Peer("tcp", open_access=listener.open_access)
        with socket.socket(fileno=os.dup(accepted.fileno())) as sock:
            peer = self._meet_unix(sock)
        if peer.refusal:
            _log.warning("Cannot let a local peer in", principal=peer.principal, why=peer.refusal)
        return peer

    def admit(self, peer: Peer, headers: Headers) -> str:
        """The principal of a request; `Unauthenticated` or `Forbidden` otherwise."""
        if peer.door == "unix":
            if peer.refusal or peer.principal is None:
                raise Forbidden(f"cannot serve this peer: {peer.refusal}")
            return peer.principal
        if peer.open_access:
            _check_same_machine(headers)
            return ANYONE
        return self._token_principal(headers.get("Authorization"))

    def _meet_unix(self, sock: socket.socket) -> Peer:
        who = peer_credentials(sock)
        principal = f"uid:{who.uid}"
        if who.uid not in (0, self.own_uid):
            return Peer("unix", principal, "only root and the daemon's own user may use this socket")
        spawner = self.spawner_pid()
        if spawner is None:
            return Peer("unix", principal)
        pidfd = peer_pidfd(sock, who.pid)
        try:
            verdict = judge(who.pid, pidfd, spawner, read_stat)
        finally:
            if pidfd is not None:
                os.close(pidfd)
        match verdict:
            case "outsider":
                return Peer("unix", principal)
            case "descendant":
                return Peer("unix", principal, "it was started by a task")
            case "gone":
                return Peer("unix", principal, "the process that connected is gone, so nobody can say what it was")
            case "unclear":
                return Peer("unix", principal, "its ancestors cannot be verified")

    def _token_principal(self, authorization: str | None) -> str:
        if not authorization:
            raise Unauthenticated("cannot tell who is asking: a bearer token is needed")
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            raise Unauthenticated("cannot tell who is asking: only `Authorization: Bearer` is taken")
        digest = hashlib.sha256(given.strip().encode(errors="replace")).digest()
        found = None
        for token in self.tokens:  # all of them, so the time tells nothing about which one was close
            if hmac.compare_digest(token.digest, digest):
                found = token.name
        if found is None:
            raise Unauthenticated("cannot tell who is asking: the token is not valid")
        return f"token:{found}"


def _check_same_machine(headers: Headers) -> None:
    if not _names_this_machine(_HOST.fullmatch(headers.get("Host") or "")):
        raise Forbidden("cannot serve this request: without credentials, `Host` must name this machine")
    origin = headers.get("Origin")
    if origin is not None and not _names_this_machine(_ORIGIN.fullmatch(origin)):
        raise Forbidden("cannot serve this request: without credentials, no other site's page may use this door")


def _names_this_machine(found: re.Match[str] | None) -> bool:
    return found is not None and is_loopback(found["name"])
