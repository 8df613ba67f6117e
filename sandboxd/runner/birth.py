"""How does the spawner's process come up?

As a fresh interpreter in a session of its own, with one socket to the daemon, and nothing of the daemon's environment. It
needs a third of a second to load its code, so it is started before anything needs it, and then waits to be told its setup.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

import sandboxd
from sandboxd.errors import Unable
from sandboxd.runner import burial, linux
from sandboxd.values import frozen

_BOOTSTRAP: Final = (
    "import sys; sys.path[:] = sys.argv[3:]; from sandboxd.runner.spawner import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
living: Final[set[int]] = set()  # pids of the spawners of this process, of which there is one outside of tests


class SpawnerUnavailable(Unable):
    """The spawner cannot work on this host, or did not come up."""


@frozen
class Newborn:
    """A spawner's process that knows nothing yet, and the daemon's end of its socket.

    `spared`: other children of this process with sessions of their own, which are not the spawner's (`burial`).
    """

    process: trio.Process
    sock: trio.socket.SocketType
    spared: set[int]


@asynccontextmanager
async def newborn() -> AsyncIterator[Newborn]:
    """The process, for as long as the block runs: killed and reaped at its end; `SpawnerUnavailable`."""
    linux.become_subreaper()  # when the spawner dies, what it started comes to us
    spared = burial.other_sessions()
    process, sock = await _start()
    living.add(process.pid)
    try:
        yield Newborn(process, sock, spared)
    finally:
        sock.close()
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
        living.discard(process.pid)


async def _start() -> tuple[trio.Process, trio.socket.SocketType]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        theirs.set_inheritable(True)
        try:
            process = await trio.lowlevel.open_process(
                command(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SpawnerUnavailable(f"cannot start the spawner: {error.strerror}") from error
    return process, trio.socket.from_stdlib_socket(ours)


def command(socket_fd: int) -> list[str]:
    """What starts a spawner for this process, at the other end of that socket, with nothing else of this process's.

    Isolated (-I) and without site (-S): no variable of the daemon's environment and no file in the current directory decides
    what code the policy's seat runs. It is told where the packages are.
    """
    return [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(socket_fd), str(os.getpid()), *_import_path()]


def _import_path() -> list[str]:
    """Where this process finds its packages, the one that this code came from first; nothing relative."""
    home = str(Path(sandboxd.__file__).resolve().parent.parent)
    return [home, *(entry for entry in sys.path if entry.startswith("/") and entry != home)]
