"""How does a command open a connection, and what does it say where nobody answers?

To what was named, and to nothing else: no proxy of the environment, no redirect. Without https there is nothing to verify, and
loading the certificates takes longer than the request.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import httpx

from sandboxd.cli.exits import Exit, Failure
from sandboxd.values import frozen

CONNECT_S: Final = 5.0


@frozen
class Target:
    """Whom a command talks to. `who`: what it is called; `where`: its URL or socket; `start`, `door`: hints for who cannot."""

    who: str
    where: str
    start: str
    door: str


def open_client(*, url: str, socket: str, headers: Mapping[str, str], timeout_s: float) -> httpx.Client:
    """A client of what is at that URL, or at that Unix socket with the URL as its name."""
    return httpx.Client(
        base_url=url,
        transport=httpx.HTTPTransport(uds=socket or None, verify=url.startswith("https:")),
        headers=dict(headers),
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
        trust_env=False,
    )


@contextlib.contextmanager
def reaching(what: str, target: Target) -> Iterator[None]:
    """Turn what goes wrong on the way into a `Failure`; `what`: what was to be done."""
    try:
        yield
    except httpx.TransportError as error:
        raise unreachable(what, target, error) from error


def unreachable(what: str, target: Target, error: httpx.TransportError) -> Failure:
    """Why nothing came of it."""
    reason = error.__cause__ or error
    while reason.__cause__ is not None:
        reason = reason.__cause__
    inner = reason.__context__ if reason.__context__ is not None else reason
    if isinstance(inner, PermissionError):
        return Failure(f"cannot {what}: no permission to open `{target.where}`", Exit.NOT_ALLOWED, hint=target.door)
    if isinstance(error, httpx.TimeoutException):
        return Failure(f"cannot {what}: the {target.who} at `{target.where}` did not answer in time", Exit.UNREACHABLE)
    why = inner.strerror if isinstance(inner, OSError) and inner.strerror else str(error)
    return Failure(f"cannot {what}: nobody answers at `{target.where}` ({why.lower()})", Exit.UNREACHABLE, hint=target.start)
