"""Who is being served right now, and may they still be?

Credentials are looked at when a request comes in; a stream, a blocking send or a long download outlives that look. So everybody
who came in by credentials that can end (a token, a certificate's entry) is looked at again every `LOOK_S`, by the same gate: a
token that was revoked, has expired, or is no longer in the config ends what its bearer has open within that time. What was
begun by then goes on: a task is not its client's connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

import attrs
import trio

from sandboxd.errors import Refusal, Unauthenticated
from sandboxd.http.auth import Gate, Headers, Known
from sandboxd.logs import logger
from sandboxd.serving.peer import Peer

LOOK_S: Final = 1.0

_log = logger(__name__)


@attrs.define(eq=False)
class Guest:
    """One request that is being served; `end` ends it. `peer` None: nobody looks at it again.

    `is_admitted`: whoever sends it may, at its path.
    """

    end: Callable[[Refusal], None]
    peer: Peer | None = None
    headers: Headers | None = None
    known: Known | None = None
    is_admitted: bool = False


GUEST: ContextVar[Guest] = ContextVar("GUEST")  # of the request whose context it is


class Presence:
    """One for each daemon's doors."""

    def __init__(self, gate: Gate, *, look_s: float = LOOK_S) -> None:
        self._gate = gate
        self._look_s = look_s
        self._guests: set[Guest] = set()

    def __repr__(self) -> str:
        return f"<Presence guests={len(self._guests)}>"

    def admit(self, peer: Peer, headers: Headers) -> Known:
        """Who sends the current request, as `Gate.admit`; looked at again until `leave`."""
        known = self._gate.admit(peer, headers)
        if peer.door == "tcp" and not peer.open_access and (guest := GUEST.get(None)) is not None:
            guest.peer, guest.headers, guest.known = peer, headers, known
            self._guests.add(guest)
        return known

    def leave(self, guest: Guest) -> None:
        """The request is over."""
        self._guests.discard(guest)

    async def watch(self) -> None:
        """Look at everybody again and again, until cancelled."""
        while True:
            await trio.sleep(self._look_s)
            self.look()

    def look(self) -> None:
        """End every request of who would not be let in now, or may do something else now."""
        for guest in list(self._guests):
            assert guest.peer is not None
            assert guest.headers is not None
            refusal: Refusal
            try:
                if self._gate.admit(guest.peer, guest.headers) == guest.known:
                    continue
                refusal = Unauthenticated("cannot go on: what these credentials allow has changed")
            except Refusal as why:
                refusal = why
            assert guest.known is not None
            _log.info("ended a request whose credentials no longer count", principal=guest.known.principal)
            self.leave(guest)
            guest.end(refusal)
