"""How is a question put to the person at this terminal, and what do they mean by what they type?

Lines are read in the terminal's own line mode: it is never switched to raw, so nothing has to be put back, except echo while
a secret is typed. What was typed before the question was shown is thrown away: it answered something else.
"""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import trio

from sandboxd.cli.console import left
from sandboxd.cli.facts import Question

_LINE_MAX_BYTES: Final = 4096  # termios(3): what a canonical line can hold, its newline included; the rest was dropped


class InputEnded(Exception):
    """The terminal gave end of file: nobody is there to answer."""


class LineFull(Exception):
    """The line is as long as the terminal's own line buffer: its end may be missing, so it must not be sent."""


def question_lines(question: Question, number: int, now: datetime) -> list[str]:
    """The question in a frame, with what surely answers it and the time that is left."""
    remaining = left(now, question.deadline)
    head = f"┌ question {number}" + (f" · {remaining} left" if remaining else "")
    lines = [head, *[f"│ {line}" for line in question.text.split("\n")]]
    if question.choices:
        lines.append(
            "│ " + "   ".join(_spelled(question, it.text, it.title) for it in question.choices) + "   or any other text"
        )
    elif question.kind == "secret":
        lines.append("│ what you type is not shown")
    if question.default is not None:
        lines.append(f"│ Enter alone: the program's default, {question.default or 'nothing'}")
    return lines


def interpret(question: Question, typed: str) -> str | None:
    """The text to send for a typed line; None: it does not say enough, ask again.

    Enter alone is an answer where the program has a default, wants just Enter, or takes free text; to a choice without a
    default it is not.
    """
    if typed or not question.choices or question.default is not None:
        return typed
    return None


def forget_typed(fd: int) -> None:
    """Throw away what was typed so far; to be done before a question is shown, never after."""
    with contextlib.suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


async def read_line(fd: int, *, hide: bool) -> str:
    """One line from the terminal without its newline; `InputEnded`, `LineFull`. Cancelling it leaves echo as it was."""
    with _echo_off(fd) if hide else contextlib.nullcontext():
        await trio.lowlevel.wait_readable(fd)
        line = os.read(fd, _LINE_MAX_BYTES)
        if not line:
            raise InputEnded
        if len(line) == _LINE_MAX_BYTES:
            raise LineFull
        return line.removesuffix(b"\n").decode("utf-8", "replace")


def _spelled(question: Question, text: str, title: str) -> str:
    mark = " (default)" if text == question.default else ""
    return f"[{text}] {title}{mark}"


@contextlib.contextmanager
def _echo_off(fd: int) -> Iterator[None]:
    before = termios.tcgetattr(fd)
    quiet = termios.tcgetattr(fd)
    quiet[3] &= ~termios.ECHO
    quiet[3] |= termios.ECHONL
    try:
        termios.tcsetattr(fd, termios.TCSANOW, quiet)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
