"""Who may give this cockpit tasks, and in which words are they asked? (`[[caller]]`, `[[restate]]` of its config)"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.relay.restate import Wording, read_wordings
from sandboxd.errors import LoadError
from sandboxd.policy.table import Table
from sandboxd.serving.bearer import digest_of, new_token, read_token
from sandboxd.serving.private_file import make_private
from sandboxd.values import frozen

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


@frozen
class Caller:
    """A program that gives tasks; its commands run on `host`.

    `digest`: of its token. `gets_results`: it also gets what a task printed.
    """

    name: str
    host: str
    digest: bytes = attrs.field(repr=False)
    gets_results: bool = True

    @property
    def principal(self) -> Principal:
        """As whom it answers; it is one voter, and no person of this cockpit."""
        return Principal(f"caller:{self.name}", f"caller:{self.name}", may_answer=True)


@frozen
class RelayConfig:
    """The relay, as far as it is configured."""

    callers: tuple[Caller, ...] = ()
    wordings: tuple[Wording, ...] = ()

    def by_token(self, token: str) -> Caller | None:
        """Whose token it is."""
        digest, found = digest_of(token), None
        for caller in self.callers:  # all of them, so the time tells nothing about which one was close
            if hmac.compare_digest(caller.digest, digest):
                found = caller
        return found


def read_relay(callers: Sequence[Table], wordings: Sequence[Table], folder: Path, hosts: frozenset[str]) -> RelayConfig:
    """The tables; a token file that is not there is made, with a new token in it."""
    found = tuple(_read(table, folder, hosts) for table in callers)
    for table, caller in zip(callers, found, strict=True):
        if sum(other.name == caller.name for other in found) > 1:
            table.problem("name", f"`{caller.name}` stands twice")
        if caller.digest and sum(other.digest == caller.digest for other in found) > 1:
            table.problem("token-file", "is another caller's, too")
    return RelayConfig(found, read_wordings(wordings))


def _read(table: Table, folder: Path, hosts: frozenset[str]) -> Caller:
    name, host, digest = table.text("name"), table.text("host"), b""
    if name and not _NAME.fullmatch(name):
        table.problem("name", "must begin with a letter or digit, and have letters, digits and `._@+-` alone, at most 64")
    if host and host not in hosts:
        table.problem("host", f"no `[[host]]` is called `{host}`")
    if file := table.text("token-file"):
        try:
            make_private(folder / file, new_token() + "\n")
            digest = digest_of(read_token(folder / file))
        except LoadError as error:
            table.problem("token-file", f"`{file}`: " + "; ".join(problem.reason for problem in error.problems))
    caller = Caller(name, host, digest, table.word("results", ("relayed", "withheld"), "relayed") == "relayed")
    table.close()
    return caller
