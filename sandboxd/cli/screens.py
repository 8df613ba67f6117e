"""How is a task's terminal shown to somebody who only looks?

As text with its control characters as symbols; drawn as the program draws it; or, into a pipe, as its exact bytes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Final, Protocol

from sandboxd.cli.console import Console
from sandboxd.cli.drawing import Drawing, keyboard_off
from sandboxd.cli.output import OutputPrinter

PROGRAM_COLUMNS: Final = 80  # what a run's terminal has (`runner/launch`)
PROGRAM_LINES: Final = 24


class Screen(Protocol):
    """Where it is shown."""

    def write(self, name: str, data: bytes, cut: int) -> None:
        """The next piece of that artifact; `cut`: how many bytes were dropped before it."""

    def make_room(self) -> bool:
        """Whether a word may be said between the pieces; it then stands on a line of its own."""

    def leave(self) -> None:
        """Nothing more is shown."""


class Text:
    """Output as text, with a word when the task asks."""

    def __init__(self, console: Console) -> None:
        self._printer = OutputPrinter(console)

    def write(self, name: str, data: bytes, cut: int) -> None:
        """The next piece."""
        if cut:
            self._printer.say_cut(name, cut)
        self._printer.write(name, data)

    def make_room(self) -> bool:
        """Yes."""
        self._printer.to_line_start()
        return True

    def leave(self) -> None:
        """End the last line."""
        self._printer.finish()


class Drawn:
    """The program's own drawing, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawing = Drawing()
        lines = os.get_terminal_size(console.out.fileno()).lines
        console.out.write("\n" * lines + "\x1b[H")  # the program begins on an empty screen; what stood here is kept above

    def write(self, name: str, data: bytes, cut: int) -> None:
        """The next piece."""
        told = f"\r\n── {cut} bytes were cut here ──\r\n" if cut else ""
        self._console.out.write(told + self._drawing.feed(data))
        self._console.out.flush()

    def make_room(self) -> bool:
        """No: a word would stand in the middle of what is drawn."""
        return False

    def leave(self) -> None:
        """Give the terminal back as it was."""
        self._console.out.write(self._drawing.reset() + "\n")
        self._console.out.flush()


class Pipe:
    """The exact bytes, for a program."""

    def write(self, name: str, data: bytes, cut: int) -> None:
        """The next piece."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def make_room(self) -> bool:
        """No: a word is no byte of the program's."""
        return False

    def leave(self) -> None:
        """Everything is out."""


@contextlib.contextmanager
def chosen_screen(console: Console, *, raw: bool, pipe: Screen) -> Iterator[Screen]:
    """As text; with `raw` as it is drawn, where there is a terminal, else as `pipe` has its bytes."""
    if not raw:
        yield Text(console)
    elif not console.wide:
        yield pipe
    else:
        _say_size(console)
        with keyboard_off(sys.stdin.fileno()) if sys.stdin.isatty() else contextlib.nullcontext():
            yield Drawn(console)


def _say_size(console: Console) -> None:
    own = os.get_terminal_size(console.out.fileno())
    if own.columns < PROGRAM_COLUMNS or own.lines < PROGRAM_LINES:
        sizes = f"the program's is {PROGRAM_COLUMNS} × {PROGRAM_LINES}, this one {own.columns} × {own.lines}"
        console.talk(f"What it draws may be torn: {sizes}.", style="yellow")
