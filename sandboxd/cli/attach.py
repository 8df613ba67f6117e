"""What does a task's terminal show, live, to somebody who only looks, at its host or through a cockpit?

There is no way in: nothing that is typed here reaches the task, neither does this terminal's size. Leaving it never stops it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from sandboxd.cli import complete
from sandboxd.cli.attach_cockpit import follow_terminal, place_of
from sandboxd.cli.client import Daemon
from sandboxd.cli.cockpit_client import CockpitClient, cockpit_option
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit
from sandboxd.cli.facts import TaskFacts
from sandboxd.cli.find import find_task
from sandboxd.cli.follow import follow, say_status
from sandboxd.cli.outcome import exit_code
from sandboxd.cli.screens import Pipe, Screen, chosen_screen


@click.command()
@click.argument("task_id", metavar="ID", shell_complete=complete.task_ids)
@click.option(
    "--raw", is_flag=True, help="Draw it as the program does, colours and cursor included; in a pipe, its exact bytes."
)
@click.option("--exit-code", "wants_code", is_flag=True, help="End with the program's own code, as `run` does.")
@cockpit_option
@daemon_options
def attach(*, task_id: str, raw: bool, wants_code: bool, cockpit: str, reach: Reach) -> int:
    """Look at a task's terminal, from its beginning and live. Ctrl-C leaves; the task goes on.

    At a cockpit ID is that of a question, of a task that asked one, of a mission, or HOST/TASK. Control characters are shown as
    symbols. With --raw a terminal obeys what draws, and nothing that makes it answer or reaches beyond its window.
    """
    console = Console.of_process()
    if cockpit:
        with CockpitClient(cockpit, reach.token_file) as client:
            host, task_id = place_of(client, task_id)
            with chosen_screen(console, raw=raw, pipe=Pipe()) as screen:
                last = _look(console, screen, task_id, lambda: follow_terminal(client, console, screen, host, task_id))
    else:
        with reach.daemon() as daemon:
            task = find_task(daemon, task_id, to="attach to")
            with chosen_screen(console, raw=raw, pipe=_Artifacts(daemon, task.id)) as screen:
                last = _look(console, screen, task.id, lambda: _follow(daemon, console, screen, task))
    if last is None:
        return Exit.INTERRUPTED
    return exit_code(last.state, last.outcome) if wants_code else Exit.DONE


def _look(console: Console, screen: Screen, task_id: str, follow_it: Callable[[], TaskFacts]) -> TaskFacts | None:
    """Show it up to its end, as it then stands; None: whoever looked has left."""
    try:
        last = follow_it()
    except KeyboardInterrupt:
        screen.leave()
        console.talk(f"Left. Task {task_id} goes on: nothing that happens here stops it.")
        return None
    screen.leave()
    say_status(console, last)
    return last


def _follow(daemon: Daemon, console: Console, screen: Screen, task: TaskFacts) -> TaskFacts:
    def say(now: TaskFacts, _: int | None) -> None:
        if not now.has_ended and screen.make_room():  # its end is told once everything is printed
            say_status(console, now)

    return follow(daemon, task, on_output=lambda name, data, cut, _: screen.write(name, data, cut), on_status=say)


class _Artifacts:
    """The exact bytes, into a pipe: events say that there are more, and each artifact is read on from where it was."""

    def __init__(self, daemon: Daemon, task_id: str) -> None:
        self._daemon = daemon
        self._task_id = task_id
        self._told = dict[str, int]()
        self._read = dict[str, int]()

    def write(self, name: str, data: bytes, cut: int) -> None:
        """The next piece, read anew: events spell text."""
        self._told[name] = self._told.get(name, 0) + len(data)  # never less than there is: what is no text is told longer
        if self._told[name] <= self._read.get(name, 0):
            return
        for piece in self._daemon.artifact(self._task_id, name, start=self._read.get(name, 0)):
            sys.stdout.buffer.write(piece)
            self._read[name] = self._read.get(name, 0) + len(piece)
        sys.stdout.buffer.flush()

    def make_room(self) -> bool:
        """No: a word is no byte of the program's."""
        return False

    def leave(self) -> None:
        """Everything is out."""
