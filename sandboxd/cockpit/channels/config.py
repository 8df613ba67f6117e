"""Which webhooks and chats does a cockpit have? (`[[webhook]]` of its config)

The key stands in a file of its own, and so does the URL where it is a secret, as that of a chat's incoming webhook is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from sandboxd.errors import LoadError
from sandboxd.policy.table import Table
from sandboxd.serving.private_file import read_private
from sandboxd.targets import BadTarget, Network, Targets
from sandboxd.values import frozen

Form = Literal["json", "text"]
NEWS: Final = ("asked", "reminder", "escalation", "invalid", "closed", "receipt", "alert")
_USUAL: Final = ("asked", "reminder", "closed", "alert")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")
_KEY_MIN_BYTES: Final = 16  # a key that can be guessed signs for nobody
CHANNELS_MAX: Final = 32
TRIES: Final = 12


@frozen
class Webhook:
    """One place that is told of questions, and may bring signed answers.

    `tells`: what it is told of; `routes`: the escalations that are meant for it. `form`: "json" for programs, "text" for a
    chat. `shows_question` False: a notice and the link alone. `answers_as`: the one person for whom it speaks; `accounts`: the
    persons for whom it speaks, by its own ids of their accounts. Empty, both: it tells, and takes no answer.
    """

    name: str
    url: str = attrs.field(repr=False)
    key: bytes = attrs.field(repr=False)
    form: Form = "json"
    tells: frozenset[str] = frozenset(_USUAL)
    routes: tuple[str, ...] = ()
    shows_question: bool = True
    allow: tuple[Network, ...] = ()
    tries: int = TRIES
    answers_as: str | None = None
    accounts: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def channel(self) -> str:
        """What the channel is called in the record."""
        return f"webhook:{self.name}"


def read_webhooks(tables: Sequence[Table], folder: Path, people: frozenset[str]) -> tuple[Webhook, ...]:
    """The `[[webhook]]` tables; `people`: the names of everybody whom the config knows."""
    found = tuple(_read(table, folder, people) for table in tables)
    for table, webhook in zip(tables, found, strict=True):
        if sum(other.name == webhook.name for other in found) > 1:
            table.problem("name", f"`{webhook.name}` stands twice")
    if len(found) > CHANNELS_MAX:
        tables[-1].problem("name", f"there are {len(found)} webhooks, at most {CHANNELS_MAX} are taken")
    return found


def _read(table: Table, folder: Path, people: frozenset[str]) -> Webhook:
    name = table.text("name")
    if name and not _NAME.fullmatch(name):
        table.problem("name", "must be small letters, digits, `.` and `-`, at most 32")
    allow = tuple(network for text in table.texts("allow") if (network := _network(table, text)) is not None)
    routes = table.texts("routes")
    answers_as = table.text("answers-as") if table.has("answers-as") else None
    accounts = table.mapping("accounts")
    for key, persons in (("answers-as", [answers_as] if answers_as else []), ("accounts", sorted(set(accounts.values())))):
        for person in persons:
            if person not in people:
                table.problem(key, f"no `[[person]]` is called `{person}`")
    if answers_as and accounts:
        table.problem("accounts", "stands beside `answers-as`: it speaks for one person, or for several")
    webhook = Webhook(
        name=name,
        url=_read_url(table, folder, allow),
        key=_read_key(table, folder),
        form=cast(Form, table.word("form", ("json", "text"), "json")),
        tells=_read_tells(table, routes),
        routes=routes,
        shows_question=table.word("question", ("shown", "withheld"), "shown") == "shown",
        allow=allow,
        tries=table.number("tries", TRIES, most=100),
        answers_as=answers_as,
        accounts=accounts,
    )
    table.close()
    return webhook


def _read_tells(table: Table, routes: Sequence[str]) -> frozenset[str]:
    if not table.has("tells"):
        return frozenset() if routes else frozenset(_USUAL)  # who is named for escalations alone hears those, and their ends
    words = table.texts("tells")
    for word in words:
        if word not in NEWS:
            table.problem("tells", f"`{word}` is none of {', '.join(f'`{name}`' for name in NEWS)}")
    return frozenset(words)


def _read_url(table: Table, folder: Path, allow: tuple[Network, ...]) -> str:
    if table.has("url") and table.has("url-file"):
        table.problem("url-file", "stands beside `url`; name one")
    key = "url-file" if table.has("url-file") else "url"
    url = table.text(key)
    if key == "url-file" and url:
        try:
            url = read_private(folder / url).strip()
        except LoadError as error:
            table.problem(key, "; ".join(problem.reason for problem in error.problems))
            return ""
    if url:
        try:
            Targets(allow, "allow").read(url)
        except BadTarget as error:
            table.problem(key, f"cannot be told anything: {error}")
    return url


def _read_key(table: Table, folder: Path) -> bytes:
    name = table.text("secret-file")
    if not name:
        return b""
    try:
        key = read_private(folder / name).strip().encode()
    except LoadError as error:
        table.problem("secret-file", "; ".join(problem.reason for problem in error.problems))
        return b""
    if len(key) < _KEY_MIN_BYTES:
        table.problem("secret-file", f"holds fewer than {_KEY_MIN_BYTES} bytes; `openssl rand -hex 32` makes a good one")
    return key


def _network(table: Table, text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        table.problem("allow", f'`{text}` is no network, such as "127.0.0.0/8" or "fd00::/8"')
        return None
