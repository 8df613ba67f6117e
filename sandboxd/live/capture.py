"""Which bytes of a run's output are kept?

The first bytes up to the cap less the tail, then the last ones: head and tail, with the number of bytes lost between. The
tail waits in memory until the output ends, so one run holds at most `TAIL_MAX` bytes of it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from sandboxd.tasks.output import split_text

TAIL_MAX: Final = 256 * 1024  # an error is at the end of a log; a quarter of a MiB holds some 3,000 lines of it


@attrs.frozen
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
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def __repr__(self) -> str:
        return f"<Capture {self.artifact_id} pending={len(self._pending)} tail={self._tail_size} dropped={self._dropped}>"

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
        if rest:
            self._add_to_tail(rest)

    def take(self) -> Piece | None:
        """What can be appended now: whole characters alone, except where the head ends for good."""
        data, torn = split_text(bytes(self._pending)) if self._head_left else (bytes(self._pending), b"")
        self._pending[:] = torn
        return Piece(data) if data else None

    def finish(self) -> tuple[Piece, ...]:
        """Everything that is left, once no byte can follow."""
        head, tail = bytes(self._pending), b"".join(self._tail)
        self._pending.clear()
        self._tail.clear()
        if not self._dropped:
            return (Piece(head + tail),) if head or tail else ()
        return tuple(piece for piece in (Piece(head), Piece(tail, self._dropped)) if piece.data or piece.cut)

    def _add_to_tail(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > self._tail_max:
            first = self._tail.popleft()
            over = self._tail_size - self._tail_max
            if len(first) > over:
                self._tail.appendleft(first[over:])
            lost = min(over, len(first))
            self._tail_size -= lost
            self._dropped += lost
