"""Who is asking the cockpit, by which way, and may this request act for them?

* The Unix socket: root, and local users whom a `[[person]]` names by `uid`, told by the kernel.
* A bearer token of a person. A token that is sent counts alone.
* The header of a trusted proxy, which proves itself by a secret.
* A session's cookie.

The last two come with a browser's request, whoever made it send one. So what changes anything has to come from a page of ours:
`Origin` must be one of our own addresses. `Host` must be, too, or a page elsewhere could be taken for ours (DNS rebinding).
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Mapping
from os import dup
from typing import Final, Literal, Protocol

import attrs
import trio

from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.people import People
from sandboxd.cockpit.web.sessions import Sessions
from sandboxd.cockpit.web_config import Proxy
from sandboxd.errors import Forbidden, Unauthenticated
from sandboxd.logs import logger
from sandboxd.serving.ancestry import peer_credentials
from sandboxd.serving.bearer import digest_of
from sandboxd.serving.listeners import Listener
from sandboxd.serving.peer import Peer
from sandboxd.values import frozen

Way = Literal["unix", "bearer", "proxy", "session"]
PROXY_HEADER: Final = "Sandboxd-Proxy"
CHANNEL_HEADER: Final = "Sandboxd-Channel"
_SAFE: Final = ("GET", "HEAD")

_log = logger(__name__)


class Headers(Protocol):
    """The request's headers, as far as they are needed here."""

    def get(self, key: str, /) -> str | None:
        """The value of a header, or None."""


@frozen
class Guest:
    """Who sends a request, and how they came in. `is_still_in`: whether they would be let in now, as the same."""

    principal: Principal
    way: Way
    channel: str
    is_still_in: Callable[[], bool] = attrs.field(eq=False, repr=False)


@frozen
class Gate:
    """Knows who may come in. `origins`: by which addresses browsers reach us (`scheme://host[:port]`)."""

    people: People
    sessions: Sessions
    origins: frozenset[str]
    proxy: Proxy | None = None

    def meet(self, listener: Listener, accepted: trio.socket.SocketType) -> Peer:
        """Look at a new connection, once."""
        if listener.door == "tcp":
            return Peer("tcp", listener=listener)
        with socket.socket(fileno=dup(accepted.fileno())) as sock:
            uid = peer_credentials(sock).uid
        if self.people.by_uid(uid) is None:
            _log.warning("Cannot let a local user in", uid=uid)
            return Peer("unix", f"uid:{uid}", f"no `[[person]]` of the config has the uid {uid}")
        return Peer("unix", f"uid:{uid}")

    def admit(self, peer: Peer, method: str, headers: Headers, cookies: Mapping[str, str]) -> Guest:
        """Who sends a request; `Unauthenticated` or `Forbidden` otherwise."""
        if peer.door == "unix":
            return self._local(peer, headers)
        authorization = headers.get("Authorization")
        if authorization:
            return self._bearer(authorization, headers)
        guest = self._by_proxy(headers) or self._by_session(cookies)
        if guest is None:
            raise Unauthenticated("cannot tell who is asking: sign in first")
        self.check_page(headers, acts=method not in _SAFE)
        return guest

    def check_page(self, headers: Headers, *, acts: bool) -> None:
        """Whether a browser sent this from a page of ours; `Forbidden`."""
        host = (headers.get("Host") or "").lower()
        if host not in {origin.partition("://")[2] for origin in self.origins}:
            raise Forbidden(
                "cannot serve this request: its `Host` is no address of this cockpit; `public-url` names another one"
            )
        origin = headers.get("Origin")
        if acts and (origin is None or origin.lower() not in self.origins):
            raise Forbidden("cannot serve this request: it does not come from a page of this cockpit")
        if (headers.get("Sec-Fetch-Site") or "same-origin") not in ("same-origin", "none"):
            raise Forbidden("cannot serve this request: another site's page sent it")

    def _local(self, peer: Peer, headers: Headers) -> Guest:
        uid = int((peer.principal or "uid:-1").removeprefix("uid:"))
        principal = self.people.by_uid(uid)
        if peer.refusal or principal is None:
            raise Forbidden(f"cannot serve this peer: {peer.refusal or 'nobody knows it'}")
        return Guest(principal, "unix", _channel(headers), lambda: self.people.by_uid(uid) == principal)

    def _bearer(self, authorization: str, headers: Headers) -> Guest:
        scheme, _, given = authorization.partition(" ")
        token = given.strip()
        principal = self.people.by_token(token) if scheme.lower() == "bearer" else None
        if principal is None:
            raise Unauthenticated("cannot tell who is asking: the token is not valid")
        return Guest(principal, "bearer", _channel(headers), lambda: self.people.by_token(token) == principal)

    def _by_proxy(self, headers: Headers) -> Guest | None:
        if self.proxy is None:
            return None
        proof, user = headers.get(PROXY_HEADER), headers.get(self.proxy.header)
        if not proof or not hmac.compare_digest(digest_of(proof.strip()), self.proxy.digest):
            return None  # not by the proxy, so what it says of a user is nobody's word
        if not user:
            return None
        name = user.strip()
        principal = self.people.by_proxy(name)
        if principal is None:
            raise Forbidden("cannot serve this request: no `[[person]]` has that `proxy-user`")
        return Guest(principal, "proxy", "web", lambda: self.people.by_proxy(name) == principal)

    def _by_session(self, cookies: Mapping[str, str]) -> Guest | None:
        name = cookies.get(self.cookie)
        principal = self.sessions.find(name) if name else None
        if name is None or principal is None:
            return None
        return Guest(principal, "session", "web", lambda: self.sessions.find(name) == principal)

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by https."""
        return all(origin.startswith("https://") for origin in self.origins)

    @property
    def cookie(self) -> str:
        """The session cookie's name; with `__Host-` no other site of this domain can set it (RFC 6265bis)."""
        return "__Host-cockpit" if self.is_secure else "cockpit"


def _channel(headers: Headers) -> str:
    """What a program that brings a token is called in the audit: our own command line says so, all others are `api`."""
    return "cli" if headers.get(CHANNEL_HEADER) == "cli" else "api"
