"""Which events stand in a stream of bytes? (WHATWG HTML 9.2)

Lines end at CR, LF or CR LF and nowhere else: JSON text may hold U+2028. An event has a bound, and reading one costs as much as
it has bytes, however it is cut: a host can fill neither the memory nor the time of whoever reads it.
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
        self._held: list[bytes] = []  # the line that has no end yet
        self._data: list[str] = []
        self._size = 0  # of the event that has no end yet, its lines' ends included
        self._number: int | None = None

    def feed(self, piece: bytes) -> Iterator[tuple[int | None, str]]:
        """The events that this piece completes; `TooLong`."""
        first, *rest = piece.split(b"\n")
        self._hold(first)
        for part in rest:
            line = b"".join(self._held)
            self._held = []
            for text in line.decode("utf-8", "replace").removesuffix("\r").split("\r"):
                if text:
                    self._take(text)
                    continue
                number, data = self._number, self._data
                self._data, self._size = [], 0
                if data:
                    yield number, "\n".join(data)
            self._hold(part)

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > EVENT_MAX_BYTES:
            raise TooLong
        if part:
            self._held.append(part)

    def _take(self, line: str) -> None:
        self._size += 1
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
