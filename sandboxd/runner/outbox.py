"""What does the spawner have to say, and how much of it is on its way?

Never blocks: a daemon that does not read must not keep the spawner from ending runs. Descriptors are kept open until the first
byte of their frame is sent, then closed here. Where the kernel lets none through for a while, because the user has too many on
their way (unix(7), ETOOMANYREFS), the frame goes without them and says so: all others wait behind it.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sandboxd.runner.protocol import encode

FULL_BYTES: Final = 4 * 1024 * 1024  # from here on no more requests are read until the daemon has caught up
_WAIT_S: Final = 0.002
_PATIENCE_S: Final = 2.0  # with descriptors that the kernel does not take; a daemon that lives reads in far less


@attrs.define
class _Out:
    frame: Mapping[str, Any]
    rest: memoryview
    fds: tuple[int, ...]
    refused_at: float | None = None


class Outbox:
    """Frames that wait for the socket to take them. Owned by the spawner's loop."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._queue: deque[_Out] = deque()
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        """Nothing waits."""
        return not self._queue

    @property
    def is_full(self) -> bool:
        """So much waits that no further request should be taken."""
        return self._bytes >= FULL_BYTES

    def put(self, frame: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Queue a frame; the descriptors belong to the outbox from now on."""
        body = encode({**frame, "fds": len(fds)} if fds else frame)
        self._queue.append(_Out(frame, memoryview(body), tuple(fds)))
        self._bytes += len(body)

    def flush(self) -> None:
        """Send what the socket takes now. `OSError` when the daemon is gone."""
        while self._queue:
            out = self._queue[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", out.fds))] if out.fds else []
            try:
                sent = self._sock.sendmsg([out.rest], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    raise
                if not self._is_given_up(out):
                    time.sleep(_WAIT_S)  # the socket counts as writable, so the loop would spin
                    return
                continue
            self._close(out)
            self._bytes -= sent
            out.rest = out.rest[sent:]
            if not out.rest:
                self._queue.popleft()

    def _is_given_up(self, out: _Out) -> bool:
        """Whether its descriptors have been refused for so long that it goes without them from now on."""
        now = time.monotonic()
        out.refused_at = out.refused_at or now
        if now - out.refused_at < _PATIENCE_S:
            return False
        self._close(out)
        self._bytes -= len(out.rest)
        out.rest = memoryview(encode({**out.frame, "fds": 0, "lost": True}))
        self._bytes += len(out.rest)
        return True

    def _close(self, out: _Out) -> None:
        for fd in out.fds:
            os.close(fd)
        out.fds = ()
