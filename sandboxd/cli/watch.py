"""What happens, as it happens: at a host, with one of its tasks, or at a cockpit?

Lines for a person, tab-separated ones in a pipe; with --json one object a line with its number, `seq`, so that a reader of a
cockpit can go on where it was. A host has no stream of all its tasks: without an id it is looked at once a second.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import click

from sandboxd.a2a.wire import rfc3339
from sandboxd.cli import complete
from sandboxd.cli.client import Daemon
from sandboxd.cli.cockpit_client import CockpitClient, cockpit_option
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import STATE_STYLES, Console
from sandboxd.cli.exits import Exit
from sandboxd.cli.facts import TaskFacts, task_facts
from sandboxd.cli.find import find_task
from sandboxd.cli.follow import follow
from sandboxd.cli.options import json_option
from sandboxd.values import frozen

LOOK_EVERY_S: Final = 1.0
_SEEN_MAX: Final = 1000  # tasks, newest first


@click.command()
@click.argument("what_id", metavar="[ID]", required=False, default="", shell_complete=complete.task_ids)
@click.option("--after", type=click.IntRange(0), help="At a cockpit: begin behind the event of this number.")
@json_option
@cockpit_option
@daemon_options
def watch(*, what_id: str, after: int | None, as_json: bool, cockpit: str, reach: Reach) -> int:
    """Watch what happens; with ID one task alone, or at a cockpit one question or task. Ctrl-C ends it."""
    console = Console.of_process()
    if after is not None and not cockpit:
        raise click.UsageError("--after is for a cockpit, whose events have numbers of their own")
    try:
        if cockpit:
            with CockpitClient(cockpit, reach.token_file) as client:
                _watch_cockpit(client, console, what_id, after, as_json=as_json)
        else:
            with reach.daemon() as daemon:
                shown = _Shown(console, as_json)
                if what_id:
                    task = find_task(daemon, what_id, to="watch")
                    follow(daemon, task, on_output=lambda *_: None, on_status=shown.say)
                else:
                    _watch_host(daemon, shown)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.DONE


@frozen
class _Shown:
    console: Console
    as_json: bool

    def say(self, task: TaskFacts, seq: int | None) -> None:
        """One change of a task."""
        if self.as_json:
            self.console.object({**task.as_json(), "schema": "sandboxd.status/1", "seq": seq})
            return
        at = rfc3339(task.since) if task.since else ""
        text = f"asks: {task.question.text}" if task.question else task.summary
        row = [at, task.id[:8] if self.console.wide else task.id, task.state, text]
        self.console.say("\t".join(row) if not self.console.wide else "  ".join(row), style=STATE_STYLES.get(task.state, ""))


def _watch_host(daemon: Daemon, shown: _Shown) -> None:
    known = dict[str, tuple[str, str]]()
    is_first = True
    while True:
        tasks = [task_facts(task) for task in daemon.tasks(limit=_SEEN_MAX, what="watch the host")]
        for task in reversed(tasks):
            mark = (task.state, task.question.prompt_id if task.question else task.summary)
            if known.get(task.id) != mark and not (is_first and task.has_ended):
                shown.say(task, None)
            known[task.id] = mark
        known = {task.id: known[task.id] for task in tasks}
        is_first = False
        time.sleep(LOOK_EVERY_S)


def _watch_cockpit(client: CockpitClient, console: Console, wanted: str, after: int | None, *, as_json: bool) -> None:
    for number, told in client.news(after=after):
        entry: Mapping[str, Any] = told["entry"]
        prompt: Mapping[str, Any] = told["prompt"] or {}
        ids = (str(prompt.get("number", "")), str(entry["prompt_id"] or ""), str(entry["task_id"]))
        if wanted and wanted != ids[0] and not any(one.startswith(wanted) for one in ids[1:]):
            continue
        if as_json:
            console.object({"schema": "sandboxd.change/1", "seq": number, "entry": entry, "prompt": told["prompt"]})
            continue
        who = " by ".join(str(entry[name]) for name in ("principal", "channel") if entry[name])
        what = " ".join(part for part in (str(entry["event"]), str(entry["outcome"]), who) if part)
        text = str(entry["why"] or prompt.get("question", ""))
        row = [str(number), str(entry["at"]), str(entry["host"]), ids[0] or str(entry["task_id"])[:8], what, text]
        console.say("\t".join(row) if not console.wide else "  ".join(row))
