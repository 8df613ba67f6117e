"""What can be done at the master's end of a run's terminal, without waiting for anybody?

Plain calls on the descriptor, for `questions`: nothing comes between them.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LFLAG: Final = 3  # termios(3): tcgetattr's list is iflag, oflag, cflag, lflag, …
_TIOCGPTPEER: Final = 0x5441  # ioctl_tty(2), asm-generic; Python's termios does not name it


def is_canonical(fd: int) -> bool:
    """Whether the program reads whole lines, which the kernel puts together."""
    return bool(termios.tcgetattr(fd)[_LFLAG] & termios.ICANON)


def is_closed(fd: int) -> bool:
    """Whether nobody holds the other end, so that what is typed reaches nobody although the write succeeds."""
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


def type_now(fd: int, data: bytes) -> int:
    """Write without blocking; how many bytes the terminal took."""
    done = 0
    while done < len(data):
        try:
            done += os.write(fd, data[done:])
        except OSError:  # EAGAIN: its input queue is full; EIO: nobody holds the other end
            break
    return done


def is_read(fd: int) -> bool:
    """Whether everything that was typed has been read, also by a program that has ended since."""
    with _peer(fd) as peer:
        if peer is None:
            return False
        poll = select.poll()
        poll.register(peer, select.POLLIN)
        poll.poll(0)  # the line discipline takes in what is on its way before it says that there is nothing to read
        unread = array("i", [0])
        fcntl.ioctl(peer, termios.FIONREAD, unread)
        return unread[0] == 0


def take_back(fd: int) -> None:
    """Throw away everything that was typed and not read: on its way first, then what waits in the line discipline."""
    termios.tcflush(fd, termios.TCOFLUSH)
    with _peer(fd) as peer:
        if peer is not None:
            termios.tcflush(peer, termios.TCIFLUSH)


@contextmanager
def _peer(fd: int) -> Iterator[int | None]:
    """The program's end of the terminal; its queue outlives the program as long as the master is open."""
    try:
        peer = fcntl.ioctl(fd, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # no pty, or no descriptor left
        yield None
        return
    try:
        yield peer
    finally:
        os.close(peer)
