"""Can execve(2) carry this text, and how is a caller's text shown in a reason?

A reason goes to logs, terminals and JSON, so text from outside is cut and escaped before it is quoted.
"""

from __future__ import annotations

from typing import Final

# execve(2), MAX_ARG_STRLEN: 32 pages of 4 KiB for one argument or one `NAME=value`, its closing NUL included.
MAX_ARG_BYTES: Final = 131_072 - 1
_SHOWN_MAX_CHARS: Final = 200


def unfit(text: str, *, overhead_bytes: int = 0) -> str | None:
    """Why execve could not carry the text; None: it can. `overhead_bytes` stand in the same string (`NAME=`)."""
    if "\0" in text:
        return "contains a NUL character, which no argument can carry"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is no text"
    room = MAX_ARG_BYTES - overhead_bytes
    if size > room:
        return f"is {size} bytes long, and at most {room} fit into one argument"
    return None


def shown(text: str) -> str:
    """The text between backticks: printable, on one line, cut in its middle when it is long."""
    if len(text) > _SHOWN_MAX_CHARS:
        half = _SHOWN_MAX_CHARS // 2
        text = f"{text[:half]}…{text[-half:]}"
    plain = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return f"`{plain}`"
