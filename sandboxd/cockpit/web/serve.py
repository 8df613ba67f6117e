"""How do a cockpit's doors open and close?"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from typing import Final

import trio

from sandboxd import __version__, logs
from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.people import People
from sandboxd.cockpit.web.app import Route, make_app
from sandboxd.cockpit.web.desk import Desk
from sandboxd.cockpit.web.gate import Gate
from sandboxd.cockpit.web.sessions import Sessions
from sandboxd.cockpit.web_config import Web
from sandboxd.serving.listeners import MENDS, CannotListen, Listener, handed_tcp, handed_unix, tcp_listener, unix_listener
from sandboxd.serving.server import serve
from sandboxd.serving.settings import DoorSettings
from sandboxd.serving.tls import tls_context

PORT_NAME: Final = "web-port"  # where the kernel's choice of a port can be read
SOCKET_NAME: Final = "web"  # what the service manager calls the sockets that it hands over

Handed = Sequence[tuple[str, socket.socket]]

_log = logs.logger(__name__)


@asynccontextmanager
async def open_web(
    config: CockpitConfig, controller: Controller, more: tuple[Route, ...] = (), handed: Handed = ()
) -> AsyncIterator[tuple[Listener, ...]]:
    """Serve people for as long as the block runs, if the config says where; `CannotListen`, `LoadError`.

    `more`: routes of rooms beside. `handed`: sockets of the service manager's, with their names: all that are needed, or none.
    """
    if config.web is None:
        if handed:
            raise CannotListen(f"cannot listen: the config has no `[web]` for the sockets that were handed over; {MENDS}")
        yield ()
        return
    settings = DoorSettings(public_url=config.web.public_url, ping_s=10)
    sessions = Sessions(controller.records, config.people, controller.clock, config.web.session_s)
    await sessions.load()
    with open_listeners(config, config.web, settings, handed) as listeners:
        gate = Gate(config.people, sessions, origins_of(config.web, listeners), config.web.proxy)
        desk = Desk(controller, gate, settings, __version__)
        async with trio.open_nursery() as nursery:  # the server, which ends by `closing`, and the sessions of other people
            keeping = await nursery.start(_keep_sessions, config.people, sessions)
            nursery.start_soon(lambda: serve(make_app(desk, more), listeners, settings, closing=desk.closing, who=gate.meet))
            _log.info("people are served", at=" ".join(listener.url or listener.address for listener in listeners))
            try:
                yield listeners
            finally:
                desk.closing.set()
                keeping.cancel()


async def _keep_sessions(
    people: People, sessions: Sessions, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    """Sign out whom a reload leaves without their token, until it is cancelled."""
    with trio.CancelScope() as scope:
        task_status.started(scope)
        while True:
            since = people.changes
            await sessions.settle()
            await people.wait_changed(since)


@contextmanager
def open_listeners(
    config: CockpitConfig, web: Web, settings: DoorSettings, handed: Handed = ()
) -> Iterator[tuple[Listener, ...]]:
    """Listen where the config says."""
    with ExitStack() as stack:
        for _, sock in handed:
            stack.enter_context(closing(sock))
        found = _by_family(web, handed)
        listeners = []
        if web.unix is not None:
            unix = handed_unix(found[socket.AF_UNIX], web.unix) if handed else None
            # Local users whom the config names have to reach it; the kernel tells who connects, and nobody else is let in.
            mode = 0o666 if any(person.uid is not None for person in config.people.everybody) else 0o600
            listeners.append(unix or stack.enter_context(unix_listener(web.unix, mode=mode)))
        if web.tcp is not None:
            tls = tls_context(web.tls) if web.tls else None
            if handed:
                at = handed_tcp(found[socket.AF_INET], web.tcp.host, web.tcp.port, stall_s=settings.stall_s, tls=tls)
            else:
                own = tcp_listener(web.tcp.host, web.tcp.port, stall_s=settings.stall_s, tls=tls)
                at = stack.enter_context(own)
            port_file = config.state_dir / PORT_NAME
            port_file.write_text(f"{at.address.rpartition(':')[2]}\n")
            stack.callback(port_file.unlink, missing_ok=True)
            listeners.append(at)
        yield tuple(listeners)


def _by_family(web: Web, handed: Handed) -> dict[socket.AddressFamily, socket.socket]:
    """The Unix socket and the TCP one (as `AF_INET`); `CannotListen` when they are not exactly those that the config needs."""
    if not handed:
        return {}
    if strange := sorted({name for name, _ in handed} - {SOCKET_NAME}):
        raise CannotListen(
            f"cannot listen: a socket was handed over as `{strange[0]}`, which a cockpit has no use for; {MENDS}"
        )
    families = [socket.AF_UNIX if sock.family == socket.AF_UNIX else socket.AF_INET for _, sock in handed]
    for family, name, address in ((socket.AF_UNIX, "Unix", web.unix), (socket.AF_INET, "TCP", web.tcp)):
        if families.count(family) != (address is not None):
            told = f"{families.count(family)} {name} sockets were handed over, and the config has {int(address is not None)}"
            raise CannotListen(f"cannot listen: {told}; {MENDS}")
    return {family: sock for family, (_, sock) in zip(families, handed, strict=True)}


def origins_of(web: Web, listeners: tuple[Listener, ...]) -> frozenset[str]:
    """By which addresses browsers reach it; a name that only means this machine is as good as its address."""
    if web.public_url is not None:
        return frozenset({web.public_url})
    found = set()
    for listener in listeners:
        if listener.url and web.tcp is not None:
            scheme, port = listener.url.partition("://")[0], listener.address.rpartition(":")[2]
            found.add(listener.url)
            if web.tcp.is_loopback:
                found.add(f"{scheme}://localhost:{port}")
    return frozenset(found)
