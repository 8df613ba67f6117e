"""Who did what on this host?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from sandboxd.cli.client import Daemon
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option


@click.group(cls=Group, default="tail")
def audit() -> None:
    """Read the record of every send, answer and cancel."""


@audit.command()
@click.option("-n", "--lines", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@daemon_options
@json_option
def tail(*, count: int, as_json: bool, reach: Reach) -> None:
    """Show the last records."""
    console = Console.of_process()
    with reach.daemon() as daemon:
        records = daemon.audit(limit=count)["records"]
    if as_json:
        for record in records:
            console.object({"schema": "sandboxd.audit/1", **record})
        return
    headings = ["at", "principal", "door", "action", "outcome", "instance", "task", "prompt"]
    console.table(headings, [_row(record) for record in records], styles={"ACCEPTED": "green"})


@audit.command()
@click.option("--after", "number", type=click.IntRange(0), default=0, help="Only what came after the record of this number.")
@daemon_options
@json_option
def export(*, number: int, as_json: bool, reach: Reach) -> None:
    """Print every record, oldest first: a table in tabs, with --json one object a line."""
    console = Console.of_process()
    with reach.daemon() as daemon:
        for record in _all(daemon, number):
            if as_json:
                console.object({"schema": "sandboxd.audit/1", **record})
            else:
                console.say("\t".join([str(record.get("number", "")), *_row(record), str(record.get("message_id", ""))]))


def _all(daemon: Daemon, number: int) -> Iterator[Mapping[str, Any]]:
    while True:
        page = daemon.audit(after=number, limit=1000)
        yield from page["records"]
        if "next" not in page:
            return
        number = page["next"]


def _row(record: Mapping[str, Any]) -> list[str]:
    names = ("at", "principal", "door", "action", "outcome", "instance", "task_id", "prompt_id")
    return [str(record.get(name, "")) for name in names]
