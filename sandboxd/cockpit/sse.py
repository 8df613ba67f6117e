"""Which events stand in a stream of bytes? (WHATWG HTML 9.2)

Lines end at CR, LF or CR LF and nowhere else: JSON text may hold U+2028. An event has a bound: a host cannot fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

EVENT_MAX_BYTES: Final = 8 * 1024 * 1024


class TooLong(Exception):
    """One event has more than `EVENT_MAX_BYTES`."""


class Events:
    """Feed it bytes; events come out, each with the number of its `id:`, None where it is none."""

    def __init__(self) -> None:
        self._held = b""
        self._data: list[str] = []
        self._size = 0
        self._number: int | None = None

    def feed(self, piece: bytes) -> Iterator[tuple[int | None, str]]:
        """The events that this piece completes; `TooLong`."""
        *lines, self._held = (self._held + piece).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._held) + self._size > EVENT_MAX_BYTES:
            raise TooLong
        for line in lines:
            text = line.decode("utf-8", "replace")
            if text:
                self._take(text)
            elif self._data:
                number, data = self._number, "\n".join(self._data)
                self._data, self._size = [], 0
                yield number, data

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._size += len(value)
            if self._size > EVENT_MAX_BYTES:
                raise TooLong
            self._data.append(value)
        elif name == "id":
            self._number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
