"""Who may come in over TCP, and what may they do?

These commands change the token book in the state folder of the config; the daemon, if it runs, goes by it from the next request
on. A token is printed once, when it is made: only its hash is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cli.settings import read_config
from sandboxd.config import Config
from sandboxd.errors import LoadError
from sandboxd.http.token_book import FILE_NAME, NAME, Entry, add, entry_json, read_book, revoke
from sandboxd.operations.access import SCOPES, Grants, Scope
from sandboxd.serving.bearer import digest_of, new_token

config_option = click.option(
    "--config", "file", metavar="FILE", envvar="SANDBOXD_CONFIG", default="", help="Which config [SANDBOXD_CONFIG]."
)


@click.group(cls=Group, default="list")
def tokens() -> None:
    """Make, list and revoke the tokens of clients."""


@tokens.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="view: see all tasks; send: create tasks and see these; answer and cancel: of those seen; admin: everything.",
)
@click.option("--instance", "instances", metavar="ID", multiple=True, help="On this instance only; can be given again.")
@click.option("--days", type=click.IntRange(1, 36_500), help="Refuse it after so many days.")
@click.option("--certificate", metavar="CN", default="", help="No token: a client certificate with this common name.")
@config_option
@json_option
def create(
    *,
    name: str,
    scopes: Sequence[str],
    instances: Sequence[str],
    days: int | None,
    certificate: str,
    file: str,
    as_json: bool,
) -> None:
    """Make a token and print it, this once.

    \b
    sandboxd tokens create orchestrator --scope send --scope answer --scope cancel
    """
    console, config, now = Console.of_process(), read_config(file), datetime.now(UTC)
    _check(config, name, instances)
    token = "" if certificate else new_token()
    entry = Entry(
        name=name,
        grants=Grants(frozenset(cast("Sequence[Scope]", scopes)), frozenset(instances) if instances else None),
        created_at=now,
        digest=digest_of(token) if token else None,
        certificate=certificate or None,
        expires_at=now + timedelta(days=days) if days else None,
    )
    try:
        if any(known.name == name for known in read_book(_book(config))):
            why = "it is, or was, the name of another; names are not given twice"
            raise Failure(f"cannot make a token `{name}`: {why}", Exit.CONFLICT, hint="sandboxd tokens list")
        add(_book(config), entry)
    except LoadError as error:
        raise of_load_error(error) from error
    if as_json:
        console.object({"schema": "sandboxd.token/1", **entry_json(entry), **({"token": token} if token else {})})
    elif token:
        console.talk("This token is not shown again:")
        console.say(token)
    else:
        console.talk(f"Certificates of `{certificate}` are let in.")


@tokens.command("list")
@config_option
@json_option
def list_(*, file: str, as_json: bool) -> None:
    """List every token, revoked ones too; never the tokens themselves."""
    console, config, now = Console.of_process(), read_config(file), datetime.now(UTC)
    try:
        entries = read_book(_book(config))
    except LoadError as error:
        raise of_load_error(error) from error
    if as_json:
        for entry in entries:
            console.object({"schema": "sandboxd.token/1", **entry_json(entry), "live": entry.is_live(now)})
        return
    rows = [[name, f"token:{name}", "admin", "all", "live", str(path)] for name, path in config.tokens.items()]
    console.table(
        ["name", "principal", "scopes", "instances", "state", "note"], [*rows, *[_row(entry, now) for entry in entries]]
    )


@tokens.command("revoke")
@click.argument("name")
@config_option
@json_option
def revoke_(*, name: str, file: str, as_json: bool) -> None:
    """Refuse a token from its next request on; its name is not given again."""
    console, config = Console.of_process(), read_config(file)
    if name in config.tokens:
        hint = f"take it out of the config, or put another token into `{config.tokens[name]}`, and restart the daemon"
        raise Failure(f"cannot revoke `{name}`: it is the config's own", Exit.OTHER, hint=hint)
    try:
        was_live = revoke(_book(config), name, datetime.now(UTC))
    except LoadError as error:
        raise of_load_error(error) from error
    if not was_live:
        raise Failure(f"cannot revoke `{name}`: no live token has that name", Exit.NOT_FOUND, hint="sandboxd tokens list")
    if as_json:
        console.object({"schema": "sandboxd.token/1", "name": name, "live": False})
    else:
        console.talk(f"revoked `{name}`")


def _book(config: Config) -> Path:
    return config.state_dir / FILE_NAME


def _check(config: Config, name: str, instances: Sequence[str]) -> None:
    if not NAME.fullmatch(name):
        raise click.UsageError(
            f"`{name}` is no name: at most 64 letters, digits, `.`, `_`, `+`, `-`, the first a letter or digit"
        )
    if name in config.tokens:
        raise Failure(f"cannot make a token `{name}`: the config has one of that name", Exit.CONFLICT)
    known = [instance.id for instance in config.instances]
    for instance in instances:
        if instance not in known:
            hint = f"it has: {', '.join(known)}"
            raise Failure(f"cannot make a token for instance `{instance}`: the config has none of that name", hint=hint)
    if not config.state_dir.is_dir():
        raise Failure(f"cannot make a token: the state folder `{config.state_dir}` is not there; start the daemon once")


def _row(entry: Entry, now: datetime) -> list[str]:
    spelled = entry_json(entry)
    live = "live" if entry.is_live(now) else "revoked" if entry.revoked_at else "expired"
    note = f"until {spelled['expires_at']}" if entry.expires_at and live == "live" else ""
    where = "all" if spelled["instances"] is None else " ".join(spelled["instances"])
    return [entry.name, entry.principal, " ".join(spelled["scopes"]), where, live, note]
