"""How do the daemon and its courier talk?

JSON objects, each behind its length, over a stream socket. The daemon begins with `{"allow": […]}` and then asks, each question
with a number `n` of its own: `{"n", "post": {"url", "headers", "body"}}` is answered `{"n", "status"}`, `{"n", "failed"}` or
`{"n", "refused"}` (it never will be sent); `{"n", "look": url}` is answered `{"n"}` or `{"n", "refused"}`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

import trio

FRAME_MAX_BYTES: Final = 64 * 1024 * 1024
SEND_S: Final = 10.0
CONNECT_S: Final = 5.0  # what a courier takes for a connection at most, and for a whole notification
TOTAL_S: Final = 15.0
_HEADER: Final = struct.Struct("!I")
_READ_BYTES: Final = 65_536


class Frames:
    """Both directions of one connection: any task may send, one receives."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._sending = trio.Lock()
        self._data = bytearray()

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Send one frame whole; `trio.BrokenResourceError`, `trio.ClosedResourceError` when nobody is there."""
        body = json.dumps(frame, separators=(",", ":")).encode()
        # Shielded: half a frame would make nonsense of all that follow. Who takes nothing for so long is hung up on.
        async with self._sending:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + SEND_S) as patience:
                await self._stream.send_all(_HEADER.pack(len(body)) + body)
            if patience.cancelled_caught:
                await self._stream.aclose()
                raise trio.BrokenResourceError("the other end takes nothing")

    async def receive(self) -> dict[str, Any] | None:
        """The next frame, None when the other end is gone."""
        try:
            head = await self._exactly(_HEADER.size)
            (size,) = _HEADER.unpack(head) if head is not None else (FRAME_MAX_BYTES + 1,)
            body = await self._exactly(size) if size <= FRAME_MAX_BYTES else None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        frame = json.loads(body) if body is not None else None
        return frame if isinstance(frame, dict) else None

    async def aclose(self) -> None:
        """Hang up."""
        await self._stream.aclose()

    async def _exactly(self, size: int) -> bytes | None:
        while len(self._data) < size:
            piece = await self._stream.receive_some(_READ_BYTES)
            if not piece:
                return None
            self._data += piece
        found = bytes(self._data[:size])
        del self._data[:size]
        return found
