"""How does a cockpit come together, run, and end?

`open_cockpit` puts it together: the record, the clients of its hosts, the controller and a watch on each host. A channel that
is to bring answers is started in the same block, with the controller that it yields.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio

from sandboxd import logs
from sandboxd.cockpit.agent import open_agent
from sandboxd.cockpit.channels.serve import link_door, open_channels
from sandboxd.cockpit.config import CockpitConfig, load_config
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.ledger import STORE_NAME
from sandboxd.cockpit.push_source import PushSource
from sandboxd.cockpit.records import open_records
from sandboxd.cockpit.relay.serve import open_relay, relay_door
from sandboxd.cockpit.reload import Reloader
from sandboxd.cockpit.room import Room
from sandboxd.cockpit.watch import LOOK_EVERY_S, watch
from sandboxd.cockpit.web.serve import open_web
from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.errors import LoadError
from sandboxd.schemas.judge import open_judge
from sandboxd.service.hangups import open_hangups
from sandboxd.service.manager import BadHandover, Manager, take
from sandboxd.serving.listeners import CannotListen, Listener

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 78  # EX_CONFIG (sysexits.h): whoever starts it need not try again

_log = logs.logger(__name__)


def now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@asynccontextmanager
async def open_cockpit(config: CockpitConfig, *, look_every_s: float = LOOK_EVERY_S) -> AsyncIterator[Controller]:
    """A cockpit that runs for as long as the block does; `DatabaseUnavailable` when its record cannot be opened."""
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(open_records(config.state_dir / STORE_NAME, now))
        judge = await stack.enter_async_context(open_judge())
        agents = {host.name: await stack.enter_async_context(open_agent(host)) for host in config.hosts}
        nursery = await stack.enter_async_context(trio.open_nursery())  # the controller, and a watch on each host
        controller = Controller(
            *(records, agents, judge, now),
            rules=config.rules,
            questions_max=config.questions_max,
            room=Room(config.open_per_host_max, config.open_max),
            mission_tries=config.mission_tries,
            pushes=PushSource(config.state_dir, {host.name: host for host in config.hosts}),
        )
        await nursery.start(controller.run)
        for agent in agents.values():
            nursery.start_soon(lambda one: watch(controller, one, every_s=look_every_s), agent)
        try:
            yield controller
        finally:
            nursery.cancel_scope.cancel()  # what is cut short here is found out at the next start


def main(path: Path) -> int:
    """Run until told to stop (SIGTERM, SIGINT); the exit code."""
    logs.configure()
    code, manager = EXIT_OK, Manager()
    try:
        manager = take(os.environ, os.getpid())
        trio.run(_run, path, load_config(path), manager)
    except* LoadError as group:
        code = _failed(group, manager, EXIT_CONFIG)
    except* (BadHandover, DatabaseUnavailable, CannotListen) as group:
        code = _failed(group, manager, EXIT_FAILED)
    finally:
        manager.notifier.close()
    return code


def _failed(group: BaseExceptionGroup[Exception], manager: Manager, code: int) -> int:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    why = f"cannot keep the cockpit's record: {found}" if isinstance(found, DatabaseUnavailable) else str(found)
    sys.stderr.write(f"error: {why}\n")  # not the log: that is for what happens while it runs
    manager.notifier.failed(why)
    return code


def _base_url(config: CockpitConfig, listeners: Sequence[Listener]) -> str | None:
    """Where browsers reach it; None: nowhere."""
    if config.web is not None and config.web.public_url is not None:
        return config.web.public_url
    return next((listener.url for listener in listeners if listener.url), None)


async def _run(path: Path, config: CockpitConfig, manager: Manager) -> None:
    with ExitStack() as stack:  # a SIGHUP that comes while it starts must not end it
        await _serve(path, config, manager, open_hangups(stack))


async def _serve(path: Path, config: CockpitConfig, manager: Manager, hangups: AsyncIterator[int] | None) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with AsyncExitStack() as stack:
            controller = await stack.enter_async_context(open_cockpit(config))
            door = link_door(config, controller, now)
            relay = relay_door(config, controller, now)
            more = door.routes() + (relay.routes() if relay else ())
            listeners = await stack.enter_async_context(open_web(config, controller, more, manager.sockets))
            await stack.enter_async_context(open_relay(relay))
            await stack.enter_async_context(open_channels(config, controller, door, _base_url(config, listeners), now))
            nursery = await stack.enter_async_context(trio.open_nursery())  # reloads
            nursery.start_soon(_reload_on_signal, hangups, Reloader(path, config, controller, manager.notifier))
            _log.info("the cockpit runs", hosts=",".join(host.name for host in config.hosts))
            manager.notifier.ready("ready")
            async for _ in signals:
                manager.notifier.stopping("stopping; what is under way is found out at the next start")
                nursery.cancel_scope.cancel()
                break
    _log.info("the cockpit ends")


async def _reload_on_signal(hangups: AsyncIterator[int] | None, reloader: Reloader) -> None:
    if hangups is not None:
        async for _ in hangups:
            await reloader.reload()
