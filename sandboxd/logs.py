"""How does the daemon say what happened? One line an event, `key=value`, on stderr.

Under systemd (stderr is the journal) a line begins with its priority as `<N>` (sd-daemon(3)) and has no time, since the
journal has one. Text from a task, a client or a prompt is data here too: control and bidi characters are escaped, so nobody
can forge a line or move a cursor. A traceback is one more value on the same line. A line that cannot be written (its disk is
full, its reader is gone) is lost: whoever wanted to say something goes on with its work.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import unicodedata
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]

MAX_VALUE_CHARS: Final = 8192  # a traceback fits; a task's output does not belong here
_PRIORITY: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
OURS: Final = logging.getLogger("sandboxd")
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,@+%~*#")


class Logger(logging.LoggerAdapter[logging.Logger]):
    """What the modules of a room say: an event, and whatever else there is to say of it as keywords."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Take every keyword but the standard `exc_info` for a field of the event."""
        exc_info = kwargs.pop("exc_info", None)
        return msg, {"exc_info": exc_info, "extra": {"fields": dict(kwargs)}}


def configure(*, level: Level = "info", stream: TextIO | None = None, journal: bool | None = None) -> None:
    """Set up logging for this process; `journal` None: look whether stderr is connected to the journal."""
    target = stream if stream is not None else sys.stderr
    to_journal = is_journal(target, os.environ) if journal is None else journal
    handler = logging.StreamHandler(_Unfailing(target))
    handler.setFormatter(_JournalLine() if to_journal else _PlainLine())
    OURS.handlers[:] = [handler]
    OURS.setLevel(level.upper())
    OURS.propagate = False


def logger(module: str) -> Logger:
    """The logger of a module (`__name__`); every line names its room."""
    return Logger(OURS.getChild(room_of(module)), None)


def room_of(name: str) -> str:
    """The room that a module, or a logger, belongs to."""
    return name.removeprefix("sandboxd.").partition(".")[0]


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


class _Unfailing:
    """A stream that loses what it cannot write; ValueError: it is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """As of a stream; it does not raise."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        """As of a stream; it does not raise."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _PlainLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Begin with when, how bad and where."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return f"time={time} level={record.levelname.lower()} room={room_of(record.name)} {_body(self, record, {})}"


class _JournalLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Begin with the priority."""
        return f"<{_PRIORITY[record.levelno]}>{_body(self, record, {'room': room_of(record.name)})}"


def _body(formatter: logging.Formatter, record: logging.LogRecord, first: Mapping[str, object]) -> str:
    fields = {"event": record.getMessage(), **first, **fields_of(record)}
    if record.exc_info:
        fields["traceback"] = formatter.formatException(record.exc_info)
    return " ".join(f"{key}={spell(value)}" for key, value in fields.items())


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """What a `Logger` was told besides the event."""
    fields: Mapping[str, object] = vars(record).get("fields", {})
    return fields
