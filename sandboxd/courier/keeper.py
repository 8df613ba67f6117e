"""Who starts the courier, and what if it dies?

A child of the daemon, started when there is first something to send and started anew whenever it ends; or a process of its own
that connects to a socket in the daemon's state folder, where the daemon itself is kept from the network.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

import sandboxd
from sandboxd import logs
from sandboxd.courier.link import Link

_LONGEST_WAIT_S: Final = 30.0
_LIVED_S: Final = 60.0  # one that lived so long starts anew at once
_BOOTSTRAP: Final = "import sys; sys.path[:] = sys.argv[2:]; from sandboxd.courier.process import main; main(int(sys.argv[1]))"
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_log = logs.logger(__name__)


async def keep_child(link: Link) -> None:
    """Keep a courier of our own, until cancelled."""
    await link.wanted.wait()
    wait_s = 1.0
    while True:
        started_at = trio.current_time()
        try:
            await _run_child(link)
        except OSError as error:
            _log.error("Cannot start the courier", why=error.strerror or str(error))
        wait_s = 1.0 if trio.current_time() - started_at > _LIVED_S else wait_s
        _log.warning("the courier ended; what it had not sent is sent again", again_in_s=wait_s)
        await trio.sleep(wait_s)
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)


async def keep_door(link: Link, listener: trio.SocketListener, refusal: Callable[[trio.socket.SocketType], str]) -> None:
    """Talk to couriers that connect, one after the other, until cancelled. `refusal`: why one may not; empty: it may."""
    while True:
        stream = await listener.accept()
        if why := refusal(stream.socket):
            _log.warning("Cannot take a courier", why=why)
            await stream.aclose()
            continue
        _log.info("a courier connected")
        await link.serve(stream)
        _log.warning("the courier hung up; what it had not sent is sent again by the next one")


async def _run_child(link: Link) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # Isolated and without site, as the spawner: nothing but these paths decides what code runs there.
        command = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(theirs.fileno()), *_import_path()]
        environment = {name: value for name in _CERTIFICATES if (value := os.environ.get(name))}
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=environment, cwd="/"
        )
        theirs.close()
        try:
            await link.serve(trio.SocketStream(trio.socket.from_stdlib_socket(ours.dup())))
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()


def _import_path() -> list[str]:
    home = str(Path(sandboxd.__file__).resolve().parent.parent)
    return [home, *(entry for entry in sys.path if entry.startswith("/") and entry != home)]
