"""At which sockets does the daemon listen: those that it makes, or those that the service manager made?

Once anything was handed over, everything has to be: in a unit without a network a door that the daemon opened itself would be
open to nobody, and say nothing about it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Final

import trio

from sandboxd.config import Config
from sandboxd.config_push import SOCKET_NAME
from sandboxd.courier.keeper import keep_child, keep_door
from sandboxd.courier.link import Link
from sandboxd.http.auth import Gate
from sandboxd.serving.listeners import MENDS, CannotListen, Listener, handed_tcp, handed_unix, tcp_listener, unix_listener
from sandboxd.serving.peer import peer_uid
from sandboxd.serving.settings import DoorSettings
from sandboxd.serving.tls import tls_context

UNIX: Final = "unix"
TCP: Final = "tcp"
COURIER: Final = "courier"
PORT_NAME: Final = "tcp-port"  # where the kernel's choice of a port can be read

Handed = Sequence[tuple[str, socket.socket]]


def open_doors(config: Config, settings: DoorSettings, handed: Handed, stack: ExitStack) -> list[Listener]:
    """Listen where the config says, until the stack unwinds; `CannotListen`. `handed`: sockets with their names."""
    for _, sock in handed:
        stack.enter_context(closing(sock))
    found = _by_name(config, handed)
    listeners = []
    if config.listen.unix is not None:
        unix = handed_unix(found[UNIX], config.listen.unix) if handed else None
        listeners.append(unix or stack.enter_context(unix_listener(config.listen.unix)))
    if config.listen.tcp is not None:
        tcp = config.listen.tcp
        tls = tls_context(config.listen.tls) if config.listen.tls else None
        open_access = config.listen.unauthenticated
        if handed:
            at = handed_tcp(found[TCP], tcp.host, tcp.port, stall_s=settings.stall_s, open_access=open_access, tls=tls)
        else:
            own = tcp_listener(tcp.host, tcp.port, stall_s=settings.stall_s, open_access=open_access, tls=tls)
            at = stack.enter_context(own)
        port_file = config.state_dir / PORT_NAME
        port_file.write_text(f"{at.address.rpartition(':')[2]}\n")
        stack.callback(port_file.unlink, missing_ok=True)
        listeners.append(at)
    return listeners


@contextmanager
def couriers(config: Config, gate: Gate, handed: Handed) -> Iterator[Callable[[Link], Awaitable[None]]]:
    """What keeps a courier on the link."""
    if config.push.courier == "child":
        yield keep_child
        return
    with ExitStack() as stack:
        if handed:
            sock = _by_name(config, handed)[COURIER]
            listener = Listener(sock, "unix", str(sock.getsockname()))
        else:
            listener = stack.enter_context(unix_listener(config.state_dir / SOCKET_NAME))
        accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener.socket.dup()))

        def refusal(accepted: trio.socket.SocketType) -> str:
            if handed:  # the socket's file is the courier's user's alone, and only tasks have ours
                return "it has the daemon's own user, as tasks have" if peer_uid(accepted) == os.getuid() else ""
            return gate.meet(listener, accepted).refusal

        yield partial(keep_door, listener=accepting, refusal=refusal)


def _by_name(config: Config, handed: Handed) -> dict[str, socket.socket]:
    """The sockets by name; `CannotListen` when they are not exactly those that the config needs."""
    if not handed:
        return {}
    needed = {
        name
        for name, is_needed in (
            (UNIX, config.listen.unix is not None),
            (TCP, config.listen.tcp is not None),
            (COURIER, config.push.enabled and config.push.courier == "unit"),
        )
        if is_needed
    }
    names = [name for name, _ in handed]
    if missing := sorted(needed - set(names)):
        raise CannotListen(f"cannot listen: the service manager handed over no socket named `{missing[0]}`; {MENDS}")
    if surplus := sorted(set(names) - needed):
        raise CannotListen(
            f"cannot listen: the config knows nothing of the socket `{surplus[0]}` that was handed over; {MENDS}"
        )
    if len(set(names)) < len(names):
        raise CannotListen(f"cannot listen: two sockets were handed over under one name; {MENDS}")
    return dict(handed)
