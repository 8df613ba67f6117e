"""What does a task print and become, for as long as somebody looks on?

One walk through a task's events for all commands that follow one: pieces of output in order, then every change of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sandboxd.cli.client import Daemon
from sandboxd.cli.console import STATE_STYLES, Console
from sandboxd.cli.facts import TaskFacts, artifact_bytes, artifact_facts, task_facts

# The artifact's name, the piece's bytes, how many bytes were cut before it, the event's number.
OnOutput = Callable[[str, bytes, int, int | None], None]
OnStatus = Callable[[TaskFacts, int | None], None]


def follow(daemon: Daemon, task: TaskFacts, *, on_output: OnOutput, on_status: OnStatus) -> TaskFacts:
    """Tell everything that happened to the task and will, up to its end; how it then stands."""
    last = task
    for news in daemon.follow(task.id, after=1):
        update = news.item.get("artifactUpdate")
        if isinstance(update, Mapping):
            piece = update.get("artifact") or {}
            facts = artifact_facts(piece)
            on_output(facts.artifact_id, artifact_bytes(piece), facts.cut, news.seq)
        else:
            status = news.item.get("statusUpdate") or news.item.get("task") or {}
            last = task_facts({"id": task.id, **status})
            on_status(last, news.seq)
    return last


def say_status(console: Console, task: TaskFacts) -> None:
    """One line to the person when the task asks, and when it ends."""
    if task.question is not None:
        how = f"sandboxd answer {task.question.prompt_id[:8]} --text TEXT"
        console.talk(f"── asks: {task.question.text}  ({how})", style="yellow")
    elif task.has_ended:
        told = f"── {task.state}: {task.summary}" if task.summary else f"── {task.state}"
        console.talk(told, style=STATE_STYLES.get(task.state, ""))
