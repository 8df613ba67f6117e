"""Who is asking, and may they?

* Unix socket: root and the daemon's own uid, told by the kernel. Tasks run under the daemon's uid, so a peer with the spawner
  among its ancestors is refused, and so is one that is gone and can no longer be looked at.
* TCP: a bearer token; each is a principal, `token:NAME`. Without one, a client certificate that the token book knows:
  `cert:CN`. A token that is sent counts alone, so that one that is wrong is never made good by a certificate.
* TCP without credentials, where the config says so: loopback only; `Host` and `Origin` must name this machine, else any web
  page could use the door through its visitor's browser (DNS rebinding).

Principals are names for the record and for logs: `uid:0`, `token:default`, `cert:orchestrator`, `anyone`. What each may do
comes with it (`operations.access`): local peers, token files of the config and open access may do everything.
"""

from __future__ import annotations

import hmac
import os
import re
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import attrs
import trio

from sandboxd.errors import Forbidden, Unauthenticated
from sandboxd.http.token_book import Entry, TokenBook
from sandboxd.http.tokens import Token
from sandboxd.logs import logger
from sandboxd.operations.access import EVERYTHING, NOTHING, Grants
from sandboxd.serving.ancestry import judge, peer_credentials, peer_pidfd, read_stat
from sandboxd.serving.bearer import digest_of
from sandboxd.serving.listeners import Listener, is_loopback
from sandboxd.serving.peer import Peer
from sandboxd.values import frozen

ANYONE: Final = "anyone"
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://" + _HOST.pattern)

_log = logger(__name__)


@frozen
class Known:
    """Who asks, and what they may do."""

    principal: str
    grants: Grants


NOBODY: Final = Known(ANYONE, NOTHING)  # at a path that is open: whoever it is, nothing of a task is told there


class Headers(Protocol):
    """The request's headers, as far as they are needed here."""

    def get(self, key: str, /) -> str | None:
        """The value of a header, or None."""


@frozen
class Gate:
    """Knows who may come in. `spawner_pid` gives the spawner's process id, None while there is none.

    `tokens` are the config's, `book` has all others.
    """

    tokens: Sequence[Token]
    spawner_pid: Callable[[], int | None]
    book: TokenBook | None = None
    own_uid: int = attrs.field(factory=os.getuid)

    def meet(self, listener: Listener, accepted: trio.socket.SocketType) -> Peer:
        """Look at a new connection, once."""
        if listener.door == "tcp":
            return Peer("tcp", open_access=listener.open_access, listener=listener)
        with socket.socket(fileno=os.dup(accepted.fileno())) as sock:
            peer = self._meet_unix(sock)
        if peer.refusal:
            _log.warning("Cannot let a local peer in", principal=peer.principal, why=peer.refusal)
        return peer

    def admit(self, peer: Peer, headers: Headers) -> Known:
        """Who sends a request; `Unauthenticated` or `Forbidden` otherwise."""
        if peer.door == "unix":
            if peer.refusal or peer.principal is None:
                raise Forbidden(f"cannot serve this peer: {peer.refusal}")
            return Known(peer.principal, EVERYTHING)
        if peer.open_access:
            _check_same_machine(headers)
            return Known(ANYONE, EVERYTHING)
        entries = self.book.live(datetime.now(UTC)) if self.book else ()
        authorization = headers.get("Authorization")
        if not authorization and peer.certificate is not None:
            for entry in entries:
                if entry.certificate == peer.certificate:
                    return Known(entry.principal, entry.grants)
        return self._bearer(authorization, entries)

    def knows(self, principal: str) -> bool:
        """Whether somebody of that name could come in now (`operations.outbox.Standing`)."""
        if not principal.startswith(("token:", "cert:")):
            return True  # local users, and everybody where a door is open
        if any(principal == f"token:{token.name}" for token in self.tokens):
            return True
        entries = self.book.live(datetime.now(UTC)) if self.book else ()
        return any(entry.principal == principal for entry in entries)

    def gone(self) -> frozenset[str]:
        """Principals that the token book had and lets in no more; names are never given again, certificates may be."""
        now = datetime.now(UTC)
        entries = self.book.entries if self.book else ()
        live = {entry.principal for entry in entries if entry.is_live(now)}
        return frozenset(entry.principal for entry in entries) - live - {f"token:{token.name}" for token in self.tokens}

    def _meet_unix(self, sock: socket.socket) -> Peer:
        who = peer_credentials(sock)
        principal = f"uid:{who.uid}"
        if who.uid not in (0, self.own_uid):
            return Peer("unix", principal, "only root and the daemon's own user may use this socket")
        spawner = self.spawner_pid()
        if spawner is None or who.uid != self.own_uid:
            return Peer("unix", principal)  # no task becomes root: its processes gain no privileges, whatever they execute
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

    def _bearer(self, authorization: str | None, entries: Sequence[Entry]) -> Known:
        if not authorization:
            raise Unauthenticated("cannot tell who is asking: a bearer token is needed")
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            raise Unauthenticated("cannot tell who is asking: only `Authorization: Bearer` is taken")
        digest = digest_of(given.strip())
        found = None
        for token in self.tokens:  # all of them, so the time tells nothing about which one was close
            if hmac.compare_digest(token.digest, digest):
                found = Known(f"token:{token.name}", token.grants)
        for entry in entries:
            if entry.digest is not None and hmac.compare_digest(entry.digest, digest):
                found = Known(entry.principal, entry.grants)
        if found is None:
            raise Unauthenticated("cannot tell who is asking: the token is not valid")
        return found


def _check_same_machine(headers: Headers) -> None:
    if not _names_this_machine(_HOST.fullmatch(headers.get("Host") or "")):
        raise Forbidden("cannot serve this request: without credentials, `Host` must name this machine")
    origin = headers.get("Origin")
    if origin is not None and not _names_this_machine(_ORIGIN.fullmatch(origin)):
        raise Forbidden("cannot serve this request: without credentials, no other site's page may use this door")


def _names_this_machine(found: re.Match[str] | None) -> bool:
    return found is not None and is_loopback(found["name"])
