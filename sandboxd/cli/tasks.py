"""What runs, what became of it, what did it print, and how is it stopped?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from sandboxd.cli import complete
from sandboxd.cli.client import Daemon
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import STATE_STYLES, Console, ago, left
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.facts import ArtifactFacts, TaskFacts, task_facts, wire_state
from sandboxd.cli.find import find_task
from sandboxd.cli.follow import follow, say_status
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cli.output import OutputPrinter, TextStreams

NO_ISOLATION = "with all rights of the daemon's user"
_STYLES = STATE_STYLES | {"none": "red"}  # the level of isolation
STATES = ("submitted", "working", "input-required", "completed", "failed", "canceled", "rejected")


@click.group(cls=Group, default="list")
def tasks() -> None:
    """List tasks, show one, read its output, cancel it."""


@tasks.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most this many.")
@json_option
@daemon_options
def list_(state: str | None, limit: int, as_json: bool, reach: Reach) -> None:
    """List tasks, the newest change first.

    Columns in a pipe: id, state, age, adapter, mode, isolation, what it says.
    """
    console, now = Console.of_process(), datetime.now(UTC)
    with reach.daemon() as daemon:
        found = [task_facts(task) for task in daemon.tasks(state=wire_state(state) if state else "", limit=limit)]
    if as_json:
        console.object({"schema": "sandboxd.tasks/1", "tasks": [task.as_json() for task in found]})
        return
    if not found and console.wide:
        console.talk("No tasks.")
        return
    rows = [
        [
            task.id,
            task.state,
            ago(now, task.since),
            str(task.run.get("adapter", "")),
            str(task.run.get("mode", "")),
            str(task.run.get("isolation", "")),
            task.summary,
        ]
        for task in found
    ]
    console.table(("id", "state", "changed", "adapter", "mode", "isolation", "says"), rows, styles=_STYLES)


@tasks.command()
@click.argument("task_id", metavar="ID", shell_complete=complete.task_ids)
@json_option
@daemon_options
def show(task_id: str, as_json: bool, reach: Reach) -> None:
    """Show one task: its state and why, what was started, its question, its artifacts."""
    console = Console.of_process()
    with reach.daemon() as daemon:
        task = find_task(daemon, task_id, to="show")
    if as_json:
        console.object(task.as_json())
        return
    for name, value in described(task, datetime.now(UTC)):
        for number, line in enumerate(value.split("\n")):
            head = name if number == 0 else ""
            console.say(f"{head:<13} {line}" if console.wide else f"{name}\t{line}")
    if task.question is not None:
        console.talk(f"Answer it: sandboxd answer {task.question.prompt_id[:8]} --text TEXT")


def described(task: TaskFacts, now: datetime) -> list[tuple[str, str]]:
    """What is known about a task, as names and values in reading order; what is not known is left out."""
    outcome, question = task.outcome, task.question
    ended = [(key, str(outcome[key])) for key in outcome if key not in ("summary", "reasons")]
    deadline = question.deadline.astimezone() if question and question.deadline else None
    lines = [
        ("task", task.id),
        ("context", task.context_id),
        ("state", f"{task.state}, {ago(now, task.since)}" if task.since else task.state),
        ("ended", ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in ended)),
        ("says", task.summary if question is None else ""),
        ("question", question.text if question else ""),
        ("prompt", question.prompt_id if question else ""),
        ("choices", ", ".join(f"{it.text} ({it.title})" for it in question.choices) if question else ""),
        ("default", (question.default or "") if question else ""),
        ("answer by", f"{deadline:%H:%M:%S}, {left(now, deadline)} left" if deadline else ""),
        ("artifacts", ", ".join(it.artifact_id + (f" ({it.cut} bytes cut)" if it.cut else "") for it in task.artifacts)),
    ]
    run = dict(task.run) | ({"isolation": f"NONE: {NO_ISOLATION}"} if task.run.get("isolation") == "none" else {})
    lines += [(str(key), _plain(value)) for key, value in sorted(run.items())]
    return [(name, value) for name, value in lines if value]


@tasks.command()
@click.argument("task_id", metavar="ID", shell_complete=complete.task_ids)
@click.option("-f", "--follow", "is_followed", is_flag=True, help="Go on until the task ends.")
@click.option("--artifact", metavar="NAME", help="Only this one: terminal, stdout, stderr or echo.")
@click.option("--raw", is_flag=True, help="The exact bytes; never to a terminal.")
@json_option
@daemon_options
def logs(*, task_id: str, is_followed: bool, artifact: str | None, raw: bool, as_json: bool, reach: Reach) -> None:
    """Print what a task printed. What it wrote to its stderr goes to stderr.

    Control characters are shown as symbols. With --json: one object a line, with the sequence number.
    """
    console = Console.of_process()
    if raw and (as_json or is_followed):
        raise click.UsageError("--raw is for finished pieces: neither with --json nor with --follow")
    if raw and console.wide:
        hint = "send it to a file or a pipe"
        raise Failure("cannot print raw bytes: stdout is a terminal, which they could steer", Exit.USAGE, hint=hint)
    with reach.daemon() as daemon:
        task = find_task(daemon, task_id, to="print the logs of")
        if artifact and not is_followed and artifact not in {it.artifact_id for it in task.artifacts}:
            names = ", ".join(it.artifact_id for it in task.artifacts) or "none yet"
            raise Failure(f"cannot print `{artifact}`: the task has no such artifact", Exit.NOT_FOUND, hint=f"it has: {names}")
        if is_followed:
            _follow(daemon, console, task, artifact, as_json=as_json)
            return
        for it in task.artifacts:
            if artifact in (None, it.artifact_id):
                _print_whole(daemon, console, task, it, raw=raw, as_json=as_json)


@tasks.command()
@click.argument("task_id", metavar="ID", shell_complete=complete.task_ids)
@click.option("--reason", default="", help="Why; it stays on record.")
@json_option
@daemon_options
def cancel(task_id: str, reason: str, as_json: bool, reach: Reach) -> None:
    """End a task: its whole process tree, politely first."""
    console = Console.of_process()
    with reach.daemon(timeout_s=60) as daemon:
        task = task_facts(daemon.cancel(find_task(daemon, task_id, to="cancel").id, reason))
    if as_json:
        console.object(task.as_json())
    else:
        console.talk(f"Task {task.id} is {task.state}.")


def _print_whole(
    daemon: Daemon, console: Console, task: TaskFacts, artifact: ArtifactFacts, *, raw: bool, as_json: bool
) -> None:
    name, printer, texts, offset = artifact.artifact_id, OutputPrinter(console), TextStreams(), 0
    for piece in daemon.artifact(task.id, name):
        offset += len(piece)
        if raw:
            sys.stdout.buffer.write(piece)
        elif as_json:
            _log_line(console, task.id, name, texts.feed(name, piece), None)
        elif artifact.cut and offset - len(piece) <= artifact.cut_at < offset:
            head = artifact.cut_at - (offset - len(piece))
            printer.write(name, piece[:head])
            printer.say_cut(name, artifact.cut)
            printer.write(name, piece[head:])
        else:
            printer.write(name, piece)
    printer.finish()
    sys.stdout.flush()


def _follow(daemon: Daemon, console: Console, task: TaskFacts, only: str | None, *, as_json: bool) -> None:
    printer, texts = OutputPrinter(console), TextStreams()

    def on_output(name: str, data: bytes, cut: int, seq: int | None) -> None:
        if only not in (None, name):
            return
        if as_json:
            _log_line(console, task.id, name, texts.feed(name, data), seq)
            return
        if cut:
            printer.say_cut(name, cut)
        printer.write(name, data)

    def on_status(now: TaskFacts, seq: int | None) -> None:
        printer.to_line_start()
        if as_json:
            console.object({**now.as_json(), "schema": "sandboxd.status/1", "seq": seq})
        else:
            say_status(console, now)

    follow(daemon, task, on_output=on_output, on_status=on_status)
    printer.finish()


def _log_line(console: Console, task_id: str, name: str, text: str, seq: int | None) -> None:
    if text:
        console.object({"schema": "sandboxd.log/1", "task_id": task_id, "artifact": name, "seq": seq, "text": text})


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_plain(item) for item in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
