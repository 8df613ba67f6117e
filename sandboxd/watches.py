"""What becomes of this process when its user has no epoll watch left?

The kernel counts them by the user (epoll(7), max_user_watches), and tasks have the daemon's user: one that takes them all would
keep the daemon from waiting for any new connection, any new run, any end of a process. poll(2) needs no watch. So what finds
none is waited for by poll, beside the epoll that holds all the rest, and goes back there as soon as there is room.

trio has no place for this, but makes its epoll by `select.epoll()`, before anything else.
"""

from __future__ import annotations

import errno
import math
import select
import time
from collections.abc import Callable
from typing import Final

TELL_EVERY_S: Final = 60.0
_epoll = select.epoll
_FLAGS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLPRI  # the same bits as poll's


class PatientEpoll:
    """An epoll, as far as an event loop needs one, that has room for every descriptor."""

    def __init__(self, tell: Callable[[], None]) -> None:
        """`tell`: called when there was no room, not more often than every `TELL_EVERY_S`; returns at once."""
        self._tell = tell
        self._tell_at = 0.0
        self._epoll = _epoll()
        self._beside: dict[int, int] = {}
        self.modify = self._epoll.modify
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def register(self, fd: int | select.epoll, eventmask: int) -> None:
        """As of epoll, but for want of room."""
        number = fd if isinstance(fd, int) else fd.fileno()
        self._beside.pop(number, None)
        try:
            self._epoll.register(number, eventmask)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            if time.monotonic() >= self._tell_at:
                self._tell_at = time.monotonic() + TELL_EVERY_S
                self._tell()
            if eventmask & _FLAGS:
                self._beside[number] = eventmask

    def unregister(self, fd: int) -> None:
        """As of epoll."""
        if self._beside.pop(fd, None) is None:
            self._epoll.unregister(fd)

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        """As of epoll; `timeout` in seconds."""
        if not self._beside:
            return self._epoll.poll(timeout, maxevents)
        both = select.poll()
        both.register(self._epoll.fileno(), select.POLLIN)
        for fd, mask in self._beside.items():
            both.register(fd, mask & _FLAGS)
        events: list[tuple[int, int]] = []
        for fd, found in both.poll(math.ceil(timeout * 1000)):
            if fd == self._epoll.fileno():
                events += self._epoll.poll(0, maxevents)
            elif found & select.POLLNVAL:  # closed meanwhile: an epoll forgets it too
                del self._beside[fd]
            else:
                if self._beside[fd] & select.EPOLLONESHOT:
                    del self._beside[fd]
                events.append((fd, found))
        return events


def do_without(tell: Callable[[], None]) -> None:
    """Have every event loop that this process starts from now on do without watches when there are none; see `PatientEpoll`."""
    vars(select).update(epoll=lambda: PatientEpoll(tell))
