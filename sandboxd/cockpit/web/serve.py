"""How do a cockpit's doors open and close?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Final

import trio

from sandboxd import __version__, logs
from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.web.app import Route, make_app
from sandboxd.cockpit.web.desk import Desk
from sandboxd.cockpit.web.gate import Gate
from sandboxd.cockpit.web.sessions import Sessions
from sandboxd.cockpit.web_config import Web
from sandboxd.serving.listeners import Listener, tcp_listener, unix_listener
from sandboxd.serving.server import serve
from sandboxd.serving.settings import DoorSettings
from sandboxd.serving.tls import tls_context

PORT_NAME: Final = "web-port"  # where the kernel's choice of a port can be read

_log = logs.logger(__name__)


@asynccontextmanager
async def open_web(
    config: CockpitConfig, controller: Controller, more: tuple[Route, ...] = ()
) -> AsyncIterator[tuple[Listener, ...]]:
    """Serve people for as long as the block runs, if the config says where; `CannotListen`, `LoadError`.

    `more`: routes of rooms beside.
    """
    if config.web is None:
        yield ()
        return
    settings = DoorSettings(public_url=config.web.public_url, ping_s=10)
    with open_listeners(config, config.web, settings) as listeners:
        gate = Gate(config.people, Sessions(config.web.session_s), origins_of(config.web, listeners), config.web.proxy)
        desk = Desk(controller, gate, settings, __version__)
        async with trio.open_nursery() as nursery:  # the server; it ends by `closing`
            nursery.start_soon(lambda: serve(make_app(desk, more), listeners, settings, closing=desk.closing, who=gate.meet))
            _log.info("people are served", at=" ".join(listener.url or listener.address for listener in listeners))
            try:
                yield listeners
            finally:
                desk.closing.set()


@contextmanager
def open_listeners(config: CockpitConfig, web: Web, settings: DoorSettings) -> Iterator[tuple[Listener, ...]]:
    """Listen where the config says."""
    with ExitStack() as stack:
        listeners = []
        if web.unix is not None:
            listeners.append(stack.enter_context(unix_listener(web.unix)))
        if web.tcp is not None:
            tls = tls_context(web.tls) if web.tls else None
            own = stack.enter_context(tcp_listener(web.tcp.host, web.tcp.port, stall_s=settings.stall_s, tls=tls))
            port_file = config.state_dir / PORT_NAME
            port_file.write_text(f"{own.address.rpartition(':')[2]}\n")
            stack.callback(port_file.unlink, missing_ok=True)
            listeners.append(own)
        yield tuple(listeners)


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
