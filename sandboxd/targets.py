"""May a notification go to that URL, and to that address?

Whoever names a URL to this host makes it send requests from where it stands (SSRF), so only public addresses are allowed, and
networks that the operator named. A URL is judged as text when it is registered; the addresses of its name are judged each
time that a connection is made, since a name can lead elsewhere by then.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from sandboxd.values import frozen

URL_MAX_BYTES: Final = 2048
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORTS: Final = {"http": 80, "https": 443}
_PRINTABLE: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*\.?")
# What the C library reads as a number: `127.1`, `0x7f000001`, `0177.0.0.1`. No name ends so (RFC 1123, 2.1).
_NUMBER_LIKE: Final = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?")
_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_LOOPBACKS: Final = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))


class BadTarget(Exception):
    """Nothing goes there; the message says why, and holds nothing of the URL but its host."""


@frozen
class Target:
    """Where a URL leads: `path` is all of it behind the authority, `address` is set where its host is an address."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None = None

    @property
    def authority(self) -> str:
        """The host as a request names it, with the port where that is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Whose receiver it is."""
        return f"{self.scheme}://{self.authority}"


@frozen
class Targets:
    """Which targets are allowed: public ones, and those in the networks `allow`, which the config calls by that `key`."""

    allow: tuple[Network, ...] = ()
    key: str = "push.allow"

    def read(self, url: str) -> Target:
        """Where the URL leads; `BadTarget` when the text alone says that nothing may go there."""
        target = _parse(url)
        if target.address is not None:
            self.check(target.address)
        elif target.host.rstrip(".").rpartition(".")[2] == "localhost" and not any(map(self._is_named, _LOOPBACKS)):
            raise BadTarget(f"`{target.host}` is this machine itself")
        return target

    def check(self, address: Address) -> None:
        """`BadTarget` unless requests may go to that address."""
        for meant in _meanings(address):
            if not self._is_named(meant) and not _is_public(meant):
                raise BadTarget(f"`{address}` is no public address, and the config's `{self.key}` does not name it")

    def _is_named(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.allow)


def origin_of(url: str) -> str | None:
    """The scheme, host and port of a URL, for the record, allowed or not; None where it is none that anything goes to."""
    try:
        return _parse(url).origin
    except BadTarget:
        return None


def shown_url(url: str) -> str:
    """The URL without what may be a secret in it: no query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}" + ("?…" if parts.query else "")


def _parse(url: str) -> Target:
    if len(url.encode("utf-8", "surrogatepass")) > URL_MAX_BYTES:
        raise BadTarget(f"it has more than {URL_MAX_BYTES} bytes")
    if not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise BadTarget("it must be printable ASCII, other characters percent-encoded and names in punycode")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise BadTarget("it is no URL") from None
    if parts.scheme not in _PORTS:
        raise BadTarget("it must be an http or https URL")
    if "@" in parts.netloc:
        raise BadTarget("it must hold no credentials: send them as `authentication`")
    if parts.fragment:
        raise BadTarget("it must have no fragment")
    if port == 0:
        raise BadTarget("it has no port that can be connected to")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, _PORTS[parts.scheme] if port is None else port, path, _address(host))


def _address(host: str) -> Address | None:
    if ":" in host or _NUMBER_LIKE.fullmatch(host):
        try:
            if "%" in host:
                raise ValueError("a zone is meant for this machine alone")
            return ipaddress.ip_address(host)
        except ValueError:
            raise BadTarget(f"`{host}` is no plainly spelled IP address") from None
    if not _NAME.fullmatch(host):
        raise BadTarget("it names no host")
    return None


def _meanings(address: Address) -> tuple[Address, ...]:
    """The address itself, or what a packet to it is delivered to: IPv4 addresses hide in IPv6 ones."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address, address.sixtofour)
    if address.teredo is not None:
        return (address, *address.teredo)
    low = int(address) & 0xFFFF_FFFF
    if any(address in network for network in _NAT64) or int(address) >> 32 == 0 < low > 1:
        return (address, ipaddress.IPv4Address(low))
    return (address,)


def _is_public(address: Address) -> bool:
    if address.is_multicast or (address.is_reserved and address.version == 4):
        return False
    return address.is_global and not getattr(address, "is_site_local", False)
