"""What does a task's terminal show, live, to somebody who only looks?

There is no way in: nothing that is typed here reaches the task, neither does this terminal's size. Leaving it never stops it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Final

import click

from sandboxd.cli import complete
from sandboxd.cli.client import Daemon
from sandboxd.cli.connect import Reach, daemon_options
from sandboxd.cli.console import Console
from sandboxd.cli.drawing import Drawing, keyboard_off
from sandboxd.cli.exits import Exit
from sandboxd.cli.facts import TaskFacts
from sandboxd.cli.find import find_task
from sandboxd.cli.follow import follow, say_status
from sandboxd.cli.outcome import exit_code
from sandboxd.cli.output import OutputPrinter

PROGRAM_COLUMNS: Final = 80  # what a run's terminal has (`runner/launch`)
PROGRAM_LINES: Final = 24


@click.command()
@click.argument("task_id", metavar="ID", shell_complete=complete.task_ids)
@click.option(
    "--raw", is_flag=True, help="Draw it as the program does, colours and cursor included; in a pipe, its exact bytes."
)
@click.option("--exit-code", "wants_code", is_flag=True, help="End with the program's own code, as `run` does.")
@daemon_options
def attach(*, task_id: str, raw: bool, wants_code: bool, reach: Reach) -> int:
    """Look at a task's terminal, from its beginning and live. Ctrl-C leaves; the task goes on.

    Control characters are shown as symbols. With --raw a terminal obeys what draws, and nothing that makes it answer or reaches
    beyond its window.
    """
    console = Console.of_process()
    with reach.daemon() as daemon:
        task = find_task(daemon, task_id, to="attach to")
        with _screen(console, daemon, task, raw=raw) as screen:
            try:
                last = follow(daemon, task, on_output=screen.write, on_status=screen.status)
            except KeyboardInterrupt:
                screen.leave()
                console.talk(f"Left. Task {task.id} goes on: nothing that happens here stops it.")
                return Exit.INTERRUPTED
            screen.leave()
        say_status(console, last)
    return exit_code(last.state, last.outcome) if wants_code else Exit.DONE


class _Text:
    """Output as text, with a word when the task asks."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printer = OutputPrinter(console)

    def write(self, name: str, data: bytes, cut: int, seq: int | None) -> None:
        if cut:
            self._printer.say_cut(name, cut)
        self._printer.write(name, data)

    def status(self, task: TaskFacts, seq: int | None) -> None:
        if not task.has_ended:  # its end is told once everything is printed
            self._printer.to_line_start()
            say_status(self._console, task)

    def leave(self) -> None:
        self._printer.finish()


class _Drawn:
    """The program's own drawing, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawing = Drawing()
        lines = os.get_terminal_size(console.out.fileno()).lines
        console.out.write("\n" * lines + "\x1b[H")  # the program begins on an empty screen; what stood here is kept above

    def write(self, name: str, data: bytes, cut: int, seq: int | None) -> None:
        told = f"\r\n── {cut} bytes were cut here ──\r\n" if cut else ""
        self._console.out.write(told + self._drawing.feed(data))
        self._console.out.flush()

    def status(self, task: TaskFacts, seq: int | None) -> None:
        return  # a word in between would stand in the middle of what is drawn

    def leave(self) -> None:
        self._console.out.write(self._drawing.reset() + "\n")
        self._console.out.flush()


class _Bytes:
    """The exact bytes, into a pipe: events say that there are more, and each artifact is read on from where it was."""

    def __init__(self, daemon: Daemon, task: TaskFacts) -> None:
        self._daemon = daemon
        self._task_id = task.id
        self._told = dict[str, int]()
        self._read = dict[str, int]()

    def write(self, name: str, data: bytes, cut: int, seq: int | None) -> None:
        self._told[name] = self._told.get(name, 0) + len(data)  # never less than there is: what is no text is told longer
        if self._told[name] <= self._read.get(name, 0):
            return
        for piece in self._daemon.artifact(self._task_id, name, start=self._read.get(name, 0)):
            sys.stdout.buffer.write(piece)
            self._read[name] = self._read.get(name, 0) + len(piece)
        sys.stdout.buffer.flush()

    def status(self, task: TaskFacts, seq: int | None) -> None:
        return

    def leave(self) -> None:
        return


@contextlib.contextmanager
def _screen(console: Console, daemon: Daemon, task: TaskFacts, *, raw: bool) -> Iterator[_Text | _Drawn | _Bytes]:
    if not raw:
        yield _Text(console)
    elif not console.wide:
        yield _Bytes(daemon, task)
    else:
        _say_size(console)
        with keyboard_off(sys.stdin.fileno()) if sys.stdin.isatty() else contextlib.nullcontext():
            yield _Drawn(console)


def _say_size(console: Console) -> None:
    own = os.get_terminal_size(console.out.fileno())
    if own.columns < PROGRAM_COLUMNS or own.lines < PROGRAM_LINES:
        sizes = f"the program's is {PROGRAM_COLUMNS} × {PROGRAM_LINES}, this one {own.columns} × {own.lines}"
        console.talk(f"What it draws may be torn: {sizes}.", style="yellow")
