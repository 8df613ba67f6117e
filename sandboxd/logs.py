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
import unicodedata
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

MAX_VALUE_CHARS: Final = 8192  # a traceback fits; a task's output does not belong here
_PRIORITY: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,@+%~*#")


def configure(*, level: str = "info", stream: TextIO | None = None, journal: bool | None = None) -> None:
    """Set up logging for this process; `journal` None: look whether stderr is connected to the journal."""
    target = stream if stream is not None else sys.stderr
    to_journal = is_journal(target, os.environ) if journal is None else journal
    processors: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    if not to_journal:
        processors.append(structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"))
    processors += [structlog.processors.format_exc_info, _JournalLine() if to_journal else _PlainLine()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Unfailing(target))),
        cache_logger_on_first_use=False,  # tests and `configure` after import must reach loggers that exist already
    )


def logger(module: str) -> FilteringBoundLogger:
    """The logger of a module (`__name__`); every line names its room."""
    return cast(FilteringBoundLogger, structlog.get_logger(room=module.removeprefix("sandboxd.").partition(".")[0]))


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
    """A stream that never raises."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _PlainLine:
    def __call__(self, _: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
        fields = dict(event)
        first = {"time": fields.pop("time", None), "level": fields.pop("level", None), "room": fields.pop("room", None)}
        words = [f"{key}={spell(value)}" for key, value in first.items() if value is not None]
        return " ".join([*words, _body(fields)])


class _JournalLine:
    def __call__(self, _: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
        fields = dict(event)
        return f"<{_PRIORITY[fields.pop('level')]}>{_body(fields)}"


def _body(fields: dict[str, Any]) -> str:
    message, trace = fields.pop("event", ""), fields.pop("exception", None)
    words = [f"event={spell(message)}", *(f"{key}={spell(value)}" for key, value in fields.items())]
    if trace is not None:
        words.append(f"traceback={spell(trace)}")
    return " ".join(words)
