"""How does a cockpit keep who has signed in, so that a restart signs nobody out?

Of a session's secret its hash alone, and with it what ties it to the token that it was had for (`sessions`): whoever reads the
file can sign in as nobody.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import attrs

from sandboxd.cockpit.codec import from_us, to_us
from sandboxd.values import frozen

SESSIONS: Final = """
CREATE TABLE sessions (
    digest BLOB PRIMARY KEY,
    person TEXT NOT NULL,
    tie BLOB NOT NULL,
    began_at_us INTEGER NOT NULL,
    ends_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


@frozen
class Session:
    """Somebody who has signed in. `digest`: of the session's secret; `tie`: to the token that was brought for it."""

    digest: bytes = attrs.field(repr=False)
    person: str
    tie: bytes = attrs.field(repr=False)
    began_at: datetime
    ends_at: datetime


def all_sessions(connection: sqlite3.Connection) -> Sequence[Session]:
    """Every one on record, the oldest first."""
    found = connection.execute("SELECT digest, person, tie, began_at_us, ends_at_us FROM sessions ORDER BY began_at_us, digest")
    return [Session(digest, person, tie, from_us(began), from_us(ends)) for digest, person, tie, began, ends in found]


def put(connection: sqlite3.Connection, session: Session) -> None:
    """Somebody has signed in."""
    values = (session.digest, session.person, session.tie, to_us(session.began_at), to_us(session.ends_at))
    connection.execute("INSERT INTO sessions (digest, person, tie, began_at_us, ends_at_us) VALUES (?, ?, ?, ?, ?)", values)


def drop(connection: sqlite3.Connection, digests: Iterable[bytes]) -> None:
    """These have ended."""
    connection.executemany("DELETE FROM sessions WHERE digest = ?", [(digest,) for digest in digests])
