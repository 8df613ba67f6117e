"""How does a child get into a pid namespace, where one has to be born?

By a child of its own, in the same session's stead, for no process changes its pid namespace. It is born in its cgroup as well,
since one that is moved there waits for a grace period of the kernel's, 10 ms and more. The first child tells the second's pid
and ends. The second becomes a child of the spawner, which is a subreaper, takes the terminal, and becomes the program.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
from typing import Final

from sandboxd.runner import cgroup, linux

_ALONE_S: Final = 10  # the first child ends at once


def become(*, cgroup_fd: int | None, tell_fd: int, terminal: bool) -> None:
    """Fork, and return in the child alone: leader of a session of its own, in that cgroup, with its parent's terminal.

    `cgroup_fd`: the cgroup's directory; None: its parent's. `OSError`. The parent writes the child's pid to `tell_fd`.
    """
    if terminal:
        fcntl.ioctl(0, termios.TIOCNOTTY)  # a terminal has one session, and that of this process ends with it
    first = os.pidfd_open(os.getpid())
    pid, is_inside = linux.fork(cgroup_fd)
    if pid:
        os.write(tell_fd, str(pid).encode())
        os._exit(0)
    if cgroup_fd is not None and not is_inside:
        cgroup.move_here(cgroup_fd)
    poll = select.poll()
    poll.register(first, select.POLLIN)
    if not poll.poll(_ALONE_S * 1000):
        raise OSError("its first half did not end")
    os.setsid()
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
