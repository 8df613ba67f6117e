"""Who did what on this host?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from sandboxd.cli.client import Daemon
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cli.records import print_objects, print_records, row_of

_SCHEMA: Final = "sandboxd.audit/1"
_NAMES: Final = ("at", "principal", "door", "action", "outcome", "instance", "task_id", "prompt_id", "config_id", "target")


@click.group(cls=Group, default="tail")
def audit() -> None:
    """Read the record of every send, answer, cancel and change of push notifications."""


@audit.command()
@click.option("-n", "--lines", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@daemon_options
@json_option
def tail(*, count: int, as_json: bool, reach: Reach) -> None:
    """Show the last records."""
    with reach.daemon() as daemon:
        records = daemon.audit(limit=count)["records"]
    styles = {"ACCEPTED": "green"}
    print_records(Console.of_process(), records, schema=_SCHEMA, names=_NAMES, as_json=as_json, styles=styles)


@audit.command()
@click.option("--after", "number", type=click.IntRange(0), default=0, help="Only what came after the record of this number.")
@daemon_options
@json_option
def export(*, number: int, as_json: bool, reach: Reach) -> None:
    """Print every record, oldest first: a table in tabs, with --json one object a line."""
    console = Console.of_process()
    with reach.daemon() as daemon:
        records = _all(daemon, number)
        if as_json:
            print_objects(console, records, schema=_SCHEMA)
            return
        for record in records:
            console.say("\t".join(row_of(record, ("number", *_NAMES, "message_id"))))


def _all(daemon: Daemon, number: int) -> Iterator[Mapping[str, Any]]:
    while True:
        page = daemon.audit(after=number, limit=1000)
        yield from page["records"]
        if "next" not in page:
            return
        number = page["next"]
