"""What can be done at the master's end of a run's terminal, without waiting for anybody?

Plain calls on the descriptor, for `questions`: nothing comes between them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
from collections.abc import Iterator
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


def tell_flushes(fd: int) -> None:
    """From now on each read begins with a byte: 0 before output, else what happened (packet mode, ioctl_tty(2))."""
    fcntl.ioctl(fd, termios.TIOCPKT, struct.pack("i", 1))


def is_flush(word: int) -> bool:
    """Whether that byte says that the program threw its unread input away."""
    return bool(word & termios.TIOCPKT_FLUSHREAD)


def type_now(fd: int, data: bytes) -> int:
    """Write without blocking; how many bytes the terminal took."""
    done = 0
    while done < len(data):
        try:
            done += os.write(fd, data[done:])
        except OSError:  # EAGAIN: its input queue is full; EIO: nobody holds the other end
            break
    return done


def take_back(fd: int) -> None:
    """Throw away everything that was typed and not read: on its way first, then what waits in the line discipline."""
    termios.tcflush(fd, termios.TCOFLUSH)
    with contextlib.suppress(OSError), _peer(fd) as peer:
        termios.tcflush(peer, termios.TCIFLUSH)


def unread_bytes(fd: int) -> int | None:
    """How many typed bytes wait to be read (FIONREAD, tty_ioctl(4)); None where the kernel does not say.

    A program may read its answer and exit before it is looked at again, so "dead after the write" alone tells nothing. The
    terminal still knows when no program holds it any more: measured on Linux 6.18, 2 bytes after a program that slept over its
    `y` and Enter, 0 after one that read them.
    """
    try:
        with _peer(fd) as peer:
            poll = select.poll()
            poll.register(peer, select.POLLIN)
            poll.poll(0)  # the line discipline takes in what is on its way before it says that there is nothing to read
            (count,) = struct.unpack("i", fcntl.ioctl(peer, termios.FIONREAD, struct.pack("i", 0)))
    except OSError:
        return None
    return int(count)


@contextlib.contextmanager
def _peer(fd: int) -> Iterator[int]:
    """The other end, opened by way of the master."""
    peer = fcntl.ioctl(fd, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        yield peer
    finally:
        os.close(peer)
