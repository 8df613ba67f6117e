"""Which notifications never got through?"""

from __future__ import annotations

import click

from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option


@click.group(cls=Group, default="dead")
def push() -> None:
    """See what became of push notifications."""


@push.command()
@click.option("-n", "--lines", "count", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many.")
@daemon_options
@json_option
def dead(*, count: int, as_json: bool, reach: Reach) -> None:
    """List the notifications that were given up, the newest first. They go with their task."""
    console = Console.of_process()
    with reach.daemon() as daemon:
        found = daemon.dead_pushes(limit=count)["dead"]
    if as_json:
        for one in found:
            console.object({"schema": "sandboxd.push-dead/1", **one})
        return
    names = ("at", "task_id", "event", "tries", "why", "url", "config_id", "principal")
    headings = ["at", "task", "event", "tries", "why", "url", "config", "principal"]
    console.table(headings, [[str(one[name]) for name in names] for one in found])
