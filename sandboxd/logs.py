"""How does the daemon say what happened? One line an event, `key=value`, on stderr.

Under systemd (stderr is the journal) a line begins with its priority as `<N>` (sd-daemon(3)) and has no time, since the
journal has one. Text from a task, a client or a prompt is data here too: control and bidi characters are escaped, so nobody
can forge a line or move a cursor. A traceback is one more value on the same line. A line that cannot be written (its disk is
full, its reader is gone) is lost: whoever wanted to say something goes on with its work.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

import attrs

Level = Literal["debug", "info", "warning", "error"]
Fields = dict[str, object]
Tell = Callable[[Level, Fields], None]  # `room` and `event` among the fields; `exception` is a traceback

MAX_VALUE_CHARS: Final = 8192  # a traceback fits; a task's output does not belong here
_PRIORITY: Final[Mapping[Level, int]] = {"debug": 7, "info": 6, "warning": 4, "error": 3}
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,@+%~*#")


@attrs.frozen
class Logger:
    """What the modules of a room say; whatever else there is to say of an event are its fields."""

    room: str

    def debug(self, event: str, **fields: object) -> None:
        """What only somebody who looks for a bug wants to know."""
        self._say("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """What happened, as it should."""
        self._say("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """What somebody should look at some time."""
        self._say("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """What somebody has to do something about."""
        self._say("error", event, fields)

    def exception(self, event: str, *, raised: BaseException | None = None, **fields: object) -> None:
        """The same, with the traceback of what was raised; None: of what is being handled."""
        found = raised or sys.exc_info()[1]
        trace = "".join(traceback.format_exception(found)).rstrip("\n")
        self._say("error", event, {**fields, "exception": trace})

    def _say(self, level: Level, event: str, fields: Fields) -> None:
        if _PRIORITY[level] <= _Voice.least:
            _Voice.tell(level, {"room": self.room, "event": event, **fields})


def configure(*, level: Level = "info", stream: TextIO | None = None, journal: bool | None = None) -> None:
    """Set up logging for this process; `journal` None: look whether stderr is connected to the journal."""
    to_journal = is_journal(stream or sys.stderr, os.environ) if journal is None else journal
    _Voice.least = _PRIORITY[level]
    _Voice.tell = _Lines(stream, _journal_line if to_journal else _plain_line)


@contextlib.contextmanager
def told_to(tell: Tell) -> Iterator[None]:
    """Within the block every event goes there instead."""
    before, _Voice.tell = _Voice.tell, tell
    try:
        yield
    finally:
        _Voice.tell = before


def logger(module: str) -> Logger:
    """The logger of a module (`__name__`); every line names its room."""
    return Logger(module.removeprefix("sandboxd.").partition(".")[0])


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream is the journal's (`JOURNAL_STREAM`, systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def spell(value: object) -> str:
    """A value as one token: quoted where needed, with everything unprintable escaped."""
    text = value if isinstance(value, str) else str(value)
    if len(text) > MAX_VALUE_CHARS:
        text = f"{text[:MAX_VALUE_CHARS]}… ({len(text)} characters)"
    if text and all(char in _PLAIN for char in text):
        return text
    return '"' + "".join(_escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char in ('"', "\\"):
        return "\\" + char
    if char == "\n":
        return "\\n"
    if unicodedata.category(char)[0] == "C" or unicodedata.category(char) in ("Zl", "Zp"):
        return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    return char


class _Lines:
    """Writes a line for each event, and never raises. `stream` None: whatever is stderr at that moment."""

    def __init__(self, stream: TextIO | None, line: Callable[[Level, Fields], str]) -> None:
        self._stream = stream
        self._line = line

    def __call__(self, level: Level, fields: Fields) -> None:
        text = self._line(level, fields) + "\n"
        stream = self._stream or sys.stderr
        with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
            stream.write(text)
            stream.flush()


def _plain_line(level: Level, fields: Fields) -> str:
    rest = dict(fields)
    first = {"time": datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z", "level": level, "room": rest.pop("room")}
    return " ".join([*(f"{key}={spell(value)}" for key, value in first.items()), _body(rest)])


def _journal_line(level: Level, fields: Fields) -> str:
    return f"<{_PRIORITY[level]}>{_body(dict(fields))}"


def _body(fields: Fields) -> str:
    message, trace = fields.pop("event"), fields.pop("exception", None)
    words = [f"event={spell(message)}", *(f"{key}={spell(value)}" for key, value in fields.items())]
    if trace is not None:
        words.append(f"traceback={spell(trace)}")
    return " ".join(words)


class _Voice:
    """Where this process's events go, for loggers that were made before it was decided, too."""

    least: int = _PRIORITY["info"]
    tell: Tell = _Lines(None, _plain_line)
