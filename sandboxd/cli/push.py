"""Which notifications never got through, and do they now?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from sandboxd.cli.client import Daemon
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cli.records import print_records

_LISTED: Final = ("number", "at", "task_id", "event", "tries", "why", "url", "config_id", "principal")
_LISTED_MAX: Final = 1000
_RETRY_S: Final = 60.0  # the daemon gives a letter 30 s


@click.group(cls=Group, default="dead")
def push() -> None:
    """See what became of push notifications."""


@push.command()
@click.option("-n", "--lines", "count", type=click.IntRange(1, _LISTED_MAX), default=100, show_default=True, help="How many.")
@daemon_options
@json_option
def dead(*, count: int, as_json: bool, reach: Reach) -> None:
    """List the notifications that were given up, the newest first. They go with their task."""
    with reach.daemon() as daemon:
        found = daemon.dead_pushes(limit=count)["dead"]
    print_records(Console.of_process(), found, schema="sandboxd.push-dead/1", names=_LISTED, as_json=as_json)


@push.command()
@click.argument("numbers", metavar="NUMBER...", type=click.IntRange(1), nargs=-1)
@click.option("--all", "is_all", is_flag=True, help=f"Every one that is listed, the oldest first ({_LISTED_MAX} at most).")
@daemon_options
@json_option
def retry(*, numbers: tuple[int, ...], is_all: bool, as_json: bool, reach: Reach) -> None:
    """Send notifications that were given up once more, now, as `dead` numbers them.

    What gets through is a dead letter no longer. Its receiver may have had later ones by then; X-AIWG-Event-Id tells.
    """
    if bool(numbers) == is_all:
        raise click.UsageError("name the NUMBERs of dead letters, or --all")
    with reach.daemon(timeout_s=_RETRY_S) as daemon:
        results = [_retried(daemon, number) for number in (_all(daemon) if is_all else numbers)]
    console = Console.of_process()
    print_records(console, results, schema="sandboxd.push-retry/1", names=("number", "delivered", "why"), as_json=as_json)
    if missed := sum(not result["delivered"] for result in results):
        raise Failure(f"cannot deliver {missed} of {len(results)} notifications: they stay dead letters", Exit.OTHER)


def _retried(daemon: Daemon, number: int) -> Mapping[str, Any]:
    """What came of one; that one of them cannot be sent at all does not stop the others."""
    try:
        return daemon.retry_push(number)
    except Failure as failure:
        if failure.exit_code not in (Exit.CONFLICT, Exit.OTHER):
            raise
        return {"number": number, "delivered": False, "why": failure.message}


def _all(daemon: Daemon) -> list[int]:
    listed: list[Mapping[str, Any]] = daemon.dead_pushes(limit=_LISTED_MAX)["dead"]
    return [int(one["number"]) for one in reversed(listed)]
