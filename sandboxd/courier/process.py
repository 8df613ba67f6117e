"""What does the courier do?

The one process of ours that connects to elsewhere. It knows no task and keeps nothing: it sends what the daemon asks it to
send and says what came of it, until the daemon hangs up. When it dies nothing is lost, since the daemon's store knows what has
yet to be sent; at worst something is sent twice.
"""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
from pathlib import Path
from typing import Any

import trio

from sandboxd import watches
from sandboxd.courier.frames import Frames
from sandboxd.courier.post import Poster, Sent
from sandboxd.targets import Targets


def main(descriptor: int) -> None:
    """Serve the daemon on a socket that this process inherited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the daemon's business
    sock = socket.socket(fileno=descriptor)
    watches.do_without(lambda: None)  # the daemon, whose user it may have, says it
    with contextlib.suppress(KeyboardInterrupt):
        trio.run(_serve_socket, sock)


def serve_unix(path: Path) -> None:
    """Serve the daemon that listens at that path, until it hangs up; `OSError`."""
    trio.run(_serve_unix, path)


async def _serve_socket(sock: socket.socket) -> None:
    await serve(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))


async def _serve_unix(path: Path) -> None:
    await serve(await trio.open_unix_socket(path))


async def serve(stream: trio.SocketStream) -> None:
    """Do what the daemon asks until it hangs up."""
    frames = Frames(stream)
    setup = await frames.receive()
    if setup is None:
        return
    targets = Targets(tuple(ipaddress.ip_network(text) for text in setup["allow"]))
    async with Poster(targets) as poster, trio.open_nursery() as nursery:
        while (asked := await frames.receive()) is not None:
            nursery.start_soon(_answer, frames, poster, asked)  # the daemon bounds how much it asks at once
        nursery.cancel_scope.cancel()


async def _answer(frames: Frames, poster: Poster, asked: dict[str, Any]) -> None:
    said: dict[str, Any] = {"n": asked["n"]}
    if "look" in asked:
        said["refused"] = await poster.look(asked["look"]) or ""
    else:
        post = asked["post"]
        sent: Sent = await poster.post(post["url"], post["headers"], post["body"].encode())
        said |= {"status": sent.status, "failed": sent.failed, "refused": sent.refused}
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await frames.send(said)
