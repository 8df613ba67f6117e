"""Which people does this cockpit know, and by which accounts?

`[[person]]` of its config. An account is how somebody comes in: a token (`token:alice`), the user of a process at the Unix
socket (`uid:1000`), a name that a trusted proxy has checked (`proxy:alice@example.org`). All accounts of one person are one
voter. A display name is none of these, and grants nothing.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from sandboxd.approvals.routing import Principal
from sandboxd.errors import LoadError
from sandboxd.policy.table import Table
from sandboxd.serving.bearer import digest_of, new_token, read_token
from sandboxd.serving.private_file import make_private
from sandboxd.values import frozen

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
PEOPLE_MAX: Final = 1000  # each is compared with at every request that brings a token


@frozen
class Person:
    """One person. `digest`: of their token (`bearer.digest_of`); `may_answer` False: they see everything and change nothing."""

    name: str
    may_answer: bool = True
    digest: bytes | None = attrs.field(default=None, repr=False)
    uid: int | None = None
    proxy_user: str | None = None

    def by(self, account: str) -> Principal:
        """The person, as come in by that account."""
        return Principal(account, self.name, self.may_answer)


@attrs.define
class People:
    """Everybody whom the config names. A reload changes who that is, for whoever holds it; `changes` counts them."""

    everybody: tuple[Person, ...] = ()
    changes: int = attrs.field(default=0, eq=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, eq=False, init=False, repr=False)

    def change(self, everybody: tuple[Person, ...]) -> None:
        """From now on these, at once."""
        self.everybody = everybody
        self.changes += 1
        self._changed.set()
        self._changed = trio.Event()

    async def wait_changed(self, since: int) -> None:
        """Return once `changes` is no longer `since`."""
        while self.changes == since:
            await self._changed.wait()

    def by_name(self, name: str) -> Person | None:
        """The person of that name."""
        return next((person for person in self.everybody if person.name == name), None)

    def by_token(self, token: str) -> Principal | None:
        """Whose token it is."""
        digest, found = digest_of(token), None
        for person in self.everybody:  # all of them, so the time tells nothing about which one was close
            if person.digest is not None and hmac.compare_digest(person.digest, digest):
                found = person.by(f"token:{person.name}")
        return found

    def by_uid(self, uid: int) -> Principal | None:
        """Who that local user is. Root is somebody, also where nobody is named; tasks of a host may have any other user."""
        account = f"uid:{uid}"
        found = next((person for person in self.everybody if person.uid == uid), None)
        if found is None:
            return Principal(account, account, may_answer=True) if uid == 0 else None
        return found.by(account)

    def by_proxy(self, user: str) -> Principal | None:
        """Whom a trusted proxy means by that name."""
        found = next((person for person in self.everybody if person.proxy_user == user), None)
        return found.by(f"proxy:{user}") if found else None


def read_people(tables: Sequence[Table], folder: Path) -> People:
    """The `[[person]]` tables. A token file that is not there is made, with a new token in it."""
    people = [_read_person(table, folder) for table in tables]
    for table, person in zip(tables, people, strict=True):
        others = [other for other in people if other is not person]
        if any(other.name == person.name for other in others):
            table.problem("name", f"`{person.name}` stands twice")
        for key, value in (("uid", person.uid), ("proxy-user", person.proxy_user), ("token-file", person.digest)):
            if value is not None and any(value in (other.uid, other.proxy_user, other.digest) for other in others):
                table.problem(key, "is another person's, too")
    if len(people) > PEOPLE_MAX:
        tables[-1].problem("name", f"there are {len(people)} persons, at most {PEOPLE_MAX} are taken")
    return People(tuple(people))


def _read_person(table: Table, folder: Path) -> Person:
    name = table.text("name")
    if name and not NAME.fullmatch(name):
        table.problem("name", "must begin with a letter or digit, and have letters, digits and `._@+-` alone, at most 64")
    may_answer = table.flag("may-answer", True) is True
    digest: bytes | None = None
    if table.has("token-file"):
        digest = _read_token(table, folder / table.text("token-file"))
    if table.has("token-sha256"):
        written = table.text("token-sha256")
        if digest is not None:
            table.problem("token-sha256", "stands beside `token-file`; a person has one token")
        elif not _DIGEST.fullmatch(written):
            table.problem("token-sha256", "must be 64 hexadecimal digits: the token's SHA-256")
        else:
            digest = bytes.fromhex(written)
    uid = table.number("uid", -1, least=0, most=2**32 - 2)
    proxy_user = table.text("proxy-user") if table.has("proxy-user") else None
    table.close()
    return Person(name, may_answer, digest, None if uid < 0 else uid, proxy_user)


def _read_token(table: Table, path: Path) -> bytes | None:
    try:
        make_private(path, new_token() + "\n")
        return digest_of(read_token(path))
    except LoadError as error:
        table.problem("token-file", f"`{path}`: " + "; ".join(problem.reason for problem in error.problems))
        return None
