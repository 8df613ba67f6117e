"""Who has signed in with a browser, and until when?

A token is exchanged once for a session: the browser keeps a random name in a cookie that no script can read, and the token
nowhere. Sessions live in the memory of this process, by their hashes: a cockpit that starts anew asks everybody to sign in
again, and nothing of it is on disk.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

import attrs
import trio

from sandboxd.approvals.routing import Principal
from sandboxd.serving.bearer import digest_of

SESSIONS_MAX: Final = 1000  # of them all; the oldest one ends for the newest
_OF_ONE_MAX: Final = 20  # of one person


@attrs.frozen
class Session:
    """Somebody who has signed in; `ends_at` by trio's clock, which nobody can set."""

    principal: Principal
    ends_at: float


class Sessions:
    """Everybody who has signed in."""

    def __init__(self, session_s: float) -> None:
        self.session_s = session_s
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Sessions {len(self._open)}>"

    def begin(self, principal: Principal) -> str:
        """A new session's name, for the cookie."""
        name = secrets.token_urlsafe(32)
        mine = [digest for digest, session in self._open.items() if session.principal.person == principal.person]
        for digest in mine[: len(mine) - _OF_ONE_MAX + 1]:
            del self._open[digest]
        while len(self._open) >= SESSIONS_MAX:
            self._open.popitem(last=False)
        self._open[digest_of(name)] = Session(principal, trio.current_time() + self.session_s)
        return name

    def find(self, name: str) -> Principal | None:
        """Whose session it is; None: it has ended, or never was."""
        session = self._open.get(digest_of(name))
        if session is None:
            return None
        if trio.current_time() >= session.ends_at:
            self.end(name)
            return None
        return session.principal

    def end(self, name: str) -> None:
        """Sign out."""
        self._open.pop(digest_of(name), None)
