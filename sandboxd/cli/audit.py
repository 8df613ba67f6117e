"""Who did what on this host, or in that cockpit?

Two records, the same verbs: a host's of every send, answer and cancel, asked for over its socket; a cockpit's of every question
and every attempt to answer one, read from its state folder (`--cockpit`). Each is a chain that can be verified.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from sandboxd.chain import Broken, Spot, Verified, read, verify
from sandboxd.cli.client import Daemon
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cockpit.audit import SCHEMA
from sandboxd.cockpit.ledger import Ledger, open_ledger
from sandboxd.db.connection import DatabaseUnavailable

Command = TypeVar("Command", bound=Callable[..., Any])
Records = Iterator[Mapping[str, Any]]

_OF_HOST: Final = ("at", "principal", "door", "action", "outcome", "instance", "task_id", "prompt_id", "config_id", "target")
_OF_COCKPIT: Final = ("at", "principal", "channel", "event", "outcome", "host", "task_id", "prompt_id", "why")
_HOST_SCHEMA: Final = "sandboxd.audit/1"
_SCHEMAS: Final = {SCHEMA: "an approval audit", _HOST_SCHEMA: "a host's audit"}
_HEADINGS: Final = {"task_id": "task", "prompt_id": "prompt"}


def cockpit_option(command: Command) -> Command:
    """Gives a command the option that names a cockpit instead of a host."""
    option = click.option(
        "--cockpit",
        envvar="SANDBOXD_COCKPIT",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The state folder of a cockpit, instead of a host [SANDBOXD_COCKPIT].",
    )
    return option(command)


@click.group("audit", cls=Group, default="tail")
def audit() -> None:
    """Read the record of who did what: a host's sends, answers, cancels and push changes, or a cockpit's."""


@audit.command()
@click.option("-n", "--lines", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@cockpit_option
@daemon_options
@json_option
def tail(*, count: int, cockpit: Path | None, as_json: bool, reach: Reach) -> None:
    """Show the last records."""
    if cockpit is None:
        with reach.daemon() as daemon:
            records = [_of_host(record) for record in daemon.audit(limit=count)["records"]]
    else:
        with _ledger(cockpit) as ledger:
            records = [entry.as_json(SCHEMA) for entry in ledger.last(count)]
    _show(records, _OF_HOST if cockpit is None else _OF_COCKPIT, as_json=as_json)


@audit.command()
@click.argument("which", metavar="NUMBER|ID")
@cockpit_option
@daemon_options
@json_option
def show(*, which: str, cockpit: Path | None, as_json: bool, reach: Reach) -> None:
    """Show one record by its number, or the whole story of a prompt or a task by the beginning of its id."""
    names = _OF_HOST if cockpit is None else _OF_COCKPIT
    with _records(reach, cockpit, 0) as records:
        found = [record for record in records if _is_about(record, which)]
    if not found:
        raise Failure(f"cannot show `{which}`: no record has that number, prompt or task", Exit.NOT_FOUND)
    if len(found) > 1 or as_json:
        _show(found, names, as_json=as_json)
        return
    console = Console.of_process()
    for name, value in found[0].items():
        if name != "schema" and value not in (None, "", {}):
            console.say(f"{name:<13} {value}")


@audit.command("verify")
@click.argument("file", required=False, type=click.File("r", encoding="utf-8"))
@click.option(
    "--anchor", "anchors", multiple=True, metavar="NUMBER:HASH", help="An entry that was noted elsewhere; repeatable."
)
@cockpit_option
@daemon_options
@json_option
def verify_(*, file: Any, anchors: Sequence[str], cockpit: Path | None, as_json: bool, reach: Reach) -> None:
    """Check that nothing of an audit was changed, taken out or put in between: a host's, a cockpit's, or an export, FILE.

    Prints the number and the hash of the last entry. Kept elsewhere, it shows later that the end was not cut off.
    """
    if file is not None and cockpit is not None:
        raise click.UsageError("name one of the two: --cockpit DIR, or the FILE of an export")
    noted = dict(map(_anchor, anchors))
    try:
        if file is not None:
            found = _verify_export(file, noted)
        elif cockpit is not None:
            with _ledger(cockpit) as ledger:
                found = verify(ledger.after(0), noted)
        else:
            with reach.daemon() as daemon:
                found = _verify_host(daemon, noted)
    except Broken as broken:
        raise Failure(f"cannot trust this audit: {broken}") from broken
    console = Console.of_process()
    if as_json:
        hashed = found.end.hash if found.end.number else ""
        begins = {"begins_behind": str(found.begins)} if found.begins.number else {}
        shown = {"schema": "sandboxd.audit-verified/1", "entries": found.end.number, "hash": hashed, "checked": found.count}
        console.object(shown | begins | ({"unchained": found.unchained} if found.unchained else {}))
        return
    console.say(str(found.end) if found.end.number else "0: the audit is empty")
    if found.unchained:
        console.say(f"{found.unchained} older entries, from before this record was a chain, cannot be verified")
    elif found.begins.number:
        console.say(f"it begins behind {found.begins}: what was older is not in it")


def _verify_export(file: Any, noted: Mapping[int, str]) -> Verified:
    """A cockpit's record is never shortened; where a host's begins only the host can say."""
    lines = iter(file)
    first = next(lines, "")
    is_of_host = f'"{_HOST_SCHEMA}"' in first
    entries = read((line for part in ([first] if first else [], lines) for line in part), _SCHEMAS)
    return verify(entries, noted, begins=None, older_to=None) if is_of_host else verify(entries, noted)


def _verify_host(daemon: Daemon, noted: Mapping[int, str]) -> Verified:
    page = daemon.audit(after=0, limit=1000)
    begins = page.get("begins")
    if begins is None:
        raise Failure("cannot verify this audit: the daemon is an older one, whose record is no chain")
    rest = _all(daemon, page["next"]) if "next" in page else iter(())
    lines = (json.dumps(_of_host(record)) for part in (page["records"], rest) for record in part)
    spot = Spot(begins["number"], begins["hash"])
    return verify(read(lines, _SCHEMAS), noted, begins=spot, older_to=begins["older_to"])


@audit.command()
@click.option("--after", "number", type=click.IntRange(0), default=0, help="Only what came after the record of this number.")
@cockpit_option
@daemon_options
@json_option
def export(*, number: int, cockpit: Path | None, as_json: bool, reach: Reach) -> None:
    """Print every record, oldest first: a table in tabs, with --json one object a line, which `audit verify FILE` takes."""
    console = Console.of_process()
    with _records(reach, cockpit, number) as records:
        for record in records:
            if as_json:
                console.object(record)
            elif cockpit is None:
                console.say(
                    "\t".join([str(record.get("number", "")), *_row(record, _OF_HOST), str(record.get("message_id", ""))])
                )
            else:
                console.say("\t".join([str(record["number"]), *_row(record, _OF_COCKPIT)]))
    sys.stdout.flush()


@contextmanager
def _records(reach: Reach, cockpit: Path | None, number: int) -> Iterator[Records]:
    if cockpit is None:
        with reach.daemon() as daemon:
            yield map(_of_host, _all(daemon, number))
    else:
        with _ledger(cockpit) as ledger:
            yield (entry.as_json(SCHEMA) for entry in ledger.after(number))


@contextmanager
def _ledger(cockpit: Path) -> Iterator[Ledger]:
    try:
        with open_ledger(cockpit) as ledger:
            yield ledger
    except DatabaseUnavailable as error:
        raise Failure(f"cannot read the audit of the cockpit in `{cockpit}`: {error}") from error


def _all(daemon: Daemon, number: int) -> Records:
    while True:
        page = daemon.audit(after=number, limit=1000)
        yield from page["records"]
        if "next" not in page:
            return
        number = page["next"]


def _of_host(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"schema": _HOST_SCHEMA, **record}


def _show(records: Sequence[Mapping[str, Any]], names: Sequence[str], *, as_json: bool) -> None:
    console = Console.of_process()
    if as_json:
        for record in records:
            console.object(record)
        return
    headings = [_HEADINGS.get(name, name) for name in names]
    console.table(headings, [_row(record, names) for record in records], styles={"ACCEPTED": "green", "responded": "green"})


def _row(record: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return ["" if record.get(name) is None else str(record[name]) for name in names]


def _is_about(record: Mapping[str, Any], which: str) -> bool:
    if which.isdigit() and str(record["number"]) == which:
        return True
    # Short beginnings are in too many ids to mean one.
    return len(which) >= 4 and any(str(record.get(name) or "").startswith(which.lower()) for name in ("prompt_id", "task_id"))


def _anchor(text: str) -> tuple[int, str]:
    if not re.fullmatch(r"[1-9][0-9]{0,17}:[0-9a-f]{64}", text):
        raise click.UsageError(f"`{text}` is no NUMBER:HASH, as `audit verify` prints it")
    number, _, hashed = text.partition(":")
    return int(number), hashed
