"""Did the program read what was typed, now that it is gone?

A program may read its answer and exit before the typist looks at it again, so "dead after the write" alone tells nothing. The
terminal still knows: what nobody read is in its input queue (FIONREAD, tty_ioctl(4)), which the master's peer can ask for even
when no program holds the terminal any more (TIOCGPTPEER, ioctl_tty(2)). Measured on Linux 6.18: 2 bytes after a program that
slept over its `y` and Enter, 0 after one that read them.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from typing import Final

_TIOCGPTPEER: Final = 0x5441  # asm-generic/ioctls.h; Python has no name for it


def unread_bytes(master_fd: int) -> int | None:
    """How many typed bytes wait in the terminal's input queue; None where the kernel does not say."""
    try:
        peer = fcntl.ioctl(master_fd, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(peer, termios.FIONREAD, struct.pack("i", 0)))
        return int(count)
    except OSError:
        return None
    finally:
        os.close(peer)
