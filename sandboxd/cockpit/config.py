"""Which hosts does this cockpit drive, and by which rules?

One TOML file, strict as the daemon's: an unknown key is an error that names it. Paths are relative to the file. Tokens stand in
files of their own, which nobody else may read, and go over plain HTTP to this machine alone.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import attrs

from sandboxd import packs
from sandboxd.cockpit.agent import HostAddress, Transport
from sandboxd.cockpit.channels.config import Webhook, read_webhooks
from sandboxd.cockpit.missions.mission import TRIES_MAX
from sandboxd.cockpit.people import People, read_people
from sandboxd.cockpit.relay.config import RelayConfig, read_relay
from sandboxd.cockpit.room import OPEN_MAX, OPEN_PER_HOST_MAX
from sandboxd.cockpit.rules import RuleBook, check_rule, load_rules
from sandboxd.cockpit.web_config import Web, read_web
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.table import Table, parse_toml
from sandboxd.values import frozen

TOKEN_MAX_BYTES: Final = 4096
QUESTIONS_MAX: Final = 20  # of one task, in all


@frozen
class CockpitConfig:
    """The file, understood and its rules loaded."""

    state_dir: Path
    hosts: tuple[HostAddress, ...]
    rules: RuleBook = attrs.field(factory=RuleBook)
    questions_max: int = QUESTIONS_MAX
    people: People = attrs.field(factory=People)
    web: Web | None = None
    webhooks: tuple[Webhook, ...] = ()
    relay: RelayConfig = attrs.field(factory=RelayConfig)
    mission_tries: int = TRIES_MAX
    open_max: int = OPEN_MAX
    open_per_host_max: int = OPEN_PER_HOST_MAX


def load_config(path: Path) -> CockpitConfig:
    """The cockpit's config; `LoadError` with every problem in it, or in a file that it names."""
    file = packs.read(path)
    folder, problems = path.absolute().parent, list[Problem]()
    top = Table(parse_toml(str(path), file.text), problems)
    state_dir = folder / top.text("state-dir")
    hosts = tuple(_read_host(table, folder) for table in top.tables("host"))
    rule_files = [folder / name for name in top.texts("rules")]
    questions_max = top.number("max-questions", QUESTIONS_MAX, most=10_000)
    open_max = top.number("max-open", OPEN_MAX, most=100_000)
    open_per_host_max = top.number("max-open-per-host", OPEN_PER_HOST_MAX, most=100_000)
    people = read_people(top.tables("person"), folder)
    web = read_web(top.table("web"), folder) if top.has("web") else None
    mission_tries = top.number("mission-tries", TRIES_MAX, most=100)
    webhooks = read_webhooks(top.tables("webhook"), folder, frozenset(person.name for person in people.everybody))
    names = frozenset(host.name for host in hosts)
    relay = read_relay(top.tables("caller"), top.tables("restate"), folder, names)
    top.close()
    if web is None and any(host.push_url for host in hosts):
        top.problem("web", "is missing: a host can push to nowhere without it")
    if not hosts:
        top.problem("host", "is missing: name at least one `[[host]]`")
    every = [host.name for host in hosts]
    for name in sorted({name for name in every if every.count(name) > 1}):
        top.problem("host", f"the name `{name}` stands twice")
    if problems:
        raise LoadError(str(path), problems)
    return CockpitConfig(
        state_dir,
        hosts,
        read_rules(rule_files),
        questions_max,
        people=people,
        web=web,
        webhooks=webhooks,
        relay=relay,
        mission_tries=mission_tries,
        open_max=open_max,
        open_per_host_max=open_per_host_max,
    )


def read_rules(paths: list[Path]) -> RuleBook:
    """The rules in these files, one behind the other; `LoadError`, also for an example that does not hold."""
    book, files = RuleBook(), dict[str, Path]()
    for path in paths:
        before = len(book.rules)
        book = load_rules(str(path), packs.read(path).text, book)
        files |= {rule.name: path for rule in book.rules[before:]}
    found = [(files[rule.name], problem) for rule in book.rules for problem in check_rule(book, rule)]
    if found:
        wrong = list(dict.fromkeys(path for path, _ in found))
        placed = [attrs.evolve(problem, field=f"{path}: {problem.field}") for path, problem in found]
        raise LoadError(", ".join(map(str, wrong)), placed if len(wrong) > 1 else [problem for _, problem in found])
    return book


def _read_host(table: Table, folder: Path) -> HostAddress:
    url = table.text("url").rstrip("/")
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        table.problem("url", "must be an http:// or https:// URL")
    token = ""
    if table.has("token-file"):
        token = _read_token(table, folder / table.text("token-file"))
        if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
            table.problem("token-file", "cannot be sent over plain HTTP: everybody on the way could read it; use https://")
    transport = cast(Transport, table.word("transport", ("jsonrpc", "rest"), "jsonrpc"))
    provider = table.text("provider") if table.has("provider") else None
    name = table.text("name")
    push_url = table.text("push-url") if table.has("push-url") else ""
    pushed = urlsplit(push_url)
    if push_url and (
        pushed.scheme not in ("http", "https") or not pushed.hostname or not pushed.path.endswith(f"/push/{name}")
    ):
        table.problem("push-url", f"must be an http:// or https:// URL of this cockpit that ends in `/push/{name}`")
    host = HostAddress(name, url, transport, token, push_url, provider)
    table.close()
    return host


def _read_token(table: Table, path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(TOKEN_MAX_BYTES + 1).strip().decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        table.problem("token-file", f"cannot be read: {getattr(error, 'strerror', None) or 'it holds no token'}".lower())
        return ""
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        table.problem("token-file", f"may be read by others (mode {stat.S_IMODE(mode):04o}); `chmod 600 {path}` mends that")
    if not token or len(token) > TOKEN_MAX_BYTES or not token.isprintable() or " " in token:
        table.problem("token-file", "holds no token")
        return ""
    return token


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
