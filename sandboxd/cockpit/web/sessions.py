"""Who has signed in with a browser, and until when?

A token is exchanged once for a session: the browser keeps a random secret in a cookie that no script can read, and the token
nowhere. Of the secret its hash is kept, on disk before the browser has it, so a restart signs nobody out. A session is tied to
the token that it was had for: with another token, or none, of that person it has ended, and does not come back. Who somebody is
and what they may do is read anew with every request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.people import People, Person
from sandboxd.cockpit.records import Records
from sandboxd.cockpit.web import session_rows as rows
from sandboxd.cockpit.web.session_rows import Session
from sandboxd.serving.bearer import digest_of

SESSIONS_MAX: Final = 1000  # of them all; the oldest one ends for the newest
OF_ONE_MAX: Final = 20  # of one person
_SLACK: Final = timedelta(minutes=5)  # by which a clock that is set right may go back


class Sessions:
    """Everybody who has signed in; opened by `open_sessions`. `clock`: the wall's, since a session outlives the process."""

    def __init__(self, records: Records, people: People, clock: Callable[[], datetime], session_s: float) -> None:
        self.session_s = session_s
        self._records = records
        self._people = people
        self._clock = clock
        self._open: dict[bytes, Session] = {}  # as on disk, the oldest first

    def __repr__(self) -> str:
        return f"<Sessions {len(self._open)}>"

    async def load(self) -> None:
        """Go on with those on record; those that have ended meanwhile are forgotten."""
        self._open = {session.digest: session for session in await self._records.read(rows.all_sessions)}
        await self.settle()

    async def settle(self) -> None:
        """Forget those that have ended: by their time, or since their person or that person's token is another one now."""
        await self._end(digest for digest, session in self._open.items() if self._person(session) is None)

    async def begin(self, token: str) -> tuple[str, Principal] | None:
        """A new session's secret, for the cookie, and whose it is; None: nobody has that token."""
        principal = self._people.by_token(token)
        person = self._people.by_name(principal.person) if principal else None
        if principal is None or person is None:
            return None
        await self.settle()
        mine = [digest for digest, session in self._open.items() if session.person == person.name]
        ending = [*mine[: max(len(mine) - OF_ONE_MAX + 1, 0)], *list(self._open)[: max(len(self._open) - SESSIONS_MAX + 1, 0)]]
        secret, now = secrets.token_urlsafe(32), self._clock()
        digest = digest_of(secret)
        session = Session(digest, person.name, _tie(digest, person), now, now + timedelta(seconds=self.session_s))
        await self._end(ending)
        await self._records.write(lambda connection, _: rows.put(connection, session))
        self._open[digest] = session
        return secret, principal

    def find(self, secret: str) -> Principal | None:
        """Whose session it is; None: it has ended, or never was."""
        session = self._open.get(digest_of(secret))
        person = self._person(session) if session else None
        return person.by(f"token:{person.name}") if person else None

    async def end(self, secret: str) -> None:
        """Sign out."""
        await self._end([digest_of(secret)])

    async def _end(self, digests: Iterable[bytes]) -> None:
        ending = [digest for digest in digests if digest in self._open]
        if ending:
            for digest in ending:  # in memory first: from now on nobody comes in by it
                self._open.pop(digest)
            await self._records.write(lambda connection, _: rows.drop(connection, ending))

    def _person(self, session: Session) -> Person | None:
        now = self._clock()
        ends_at = min(session.ends_at, session.began_at + timedelta(seconds=self.session_s))  # by a shorter `session`, too
        if not session.began_at - _SLACK <= now < ends_at:  # a clock that was set back lengthens nothing
            return None
        person = self._people.by_name(session.person)
        if person is None or person.digest is None or not hmac.compare_digest(_tie(session.digest, person), session.tie):
            return None
        return person


def _tie(digest: bytes, person: Person) -> bytes:
    """What a session has of its person's token: neither can be found from it."""
    return hashlib.sha256(digest + (person.digest or b"")).digest()
