"""Which bytes of a run's output are kept?

The first bytes up to the cap less the tail, then the last ones: head and tail, with the number of bytes lost between. Both
end and begin with whole characters. The tail waits in memory until the output ends, so one run holds at most `TAIL_MAX` bytes
of it.
"""

from __future__ import annotations

from typing import Final

import attrs

from sandboxd.tasks.output import split_text
from sandboxd.values import frozen

TAIL_MAX: Final = 256 * 1024  # an error is at the end of a log; a quarter of a MiB holds some 3,000 lines of it


@frozen
class Piece:
    """Bytes to append to the artifact now; `cut` bytes were dropped just before them."""

    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    cut: int = 0


class Capture:
    """Head and tail of one artifact. Bytes go in as they are read, pieces come out in order."""

    def __init__(self, artifact_id: str, cap_bytes: int) -> None:
        self.artifact_id = artifact_id
        tail = min(TAIL_MAX, cap_bytes // 4)
        self._head_left = cap_bytes - tail
        self._tail_max = tail
        self._pending = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def __repr__(self) -> str:
        return f"<Capture {self.artifact_id} pending={len(self._pending)} tail={len(self._tail)} dropped={self._dropped}>"

    @property
    def pending(self) -> int:
        """Bytes that wait for `take`."""
        return len(self._pending)

    @property
    def dropped(self) -> int:
        """Bytes lost between head and tail so far."""
        return self._dropped

    def add(self, data: bytes) -> None:
        """Take in bytes as they were read."""
        head, rest = data[: self._head_left], data[self._head_left :]
        self._head_left -= len(head)
        self._pending += head
        self._tail += rest
        over = len(self._tail) - self._tail_max
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def take(self) -> Piece | None:
        """What can be appended now: whole characters alone."""
        data, torn = split_text(bytes(self._pending))
        self._pending[:] = torn
        return Piece(data) if data else None

    def finish(self) -> tuple[Piece, ...]:
        """Everything that is left, once no byte can follow."""
        head, tail = bytes(self._pending), bytes(self._tail)
        self._pending.clear()
        self._tail.clear()
        if not self._dropped:
            return (Piece(head + tail),) if head or tail else ()
        head, torn = split_text(head)
        whole = _from_first_character(tail)
        self._dropped += len(torn) + len(tail) - len(whole)
        return tuple(piece for piece in (Piece(head), Piece(whole, self._dropped)) if piece.data or piece.cut)


def _from_first_character(data: bytes) -> bytes:
    """Without the at most three bytes that end a character whose beginning is gone (RFC 3629)."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
