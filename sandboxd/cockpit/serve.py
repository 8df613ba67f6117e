"""How does a cockpit come together, run, and end?

`open_cockpit` puts it together: the record, the clients of its hosts, the controller and a watch on each host. A channel that
is to bring answers is started in the same block, with the controller that it yields.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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
from sandboxd.cockpit.watch import LOOK_EVERY_S, watch
from sandboxd.cockpit.web.serve import open_web
from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.errors import LoadError
from sandboxd.schemas.judge import open_judge
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
    code = EXIT_OK
    try:
        trio.run(_serve, load_config(path))
    except* LoadError as group:
        code = _failed(group, EXIT_CONFIG)
    except* (DatabaseUnavailable, CannotListen) as group:
        code = _failed(group, EXIT_FAILED)
    return code


def _failed(group: BaseExceptionGroup[Exception], code: int) -> int:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    why = f"cannot keep the cockpit's record: {found}" if isinstance(found, DatabaseUnavailable) else str(found)
    sys.stderr.write(f"error: {why}\n")  # not the log: that is for what happens while it runs
    return code


def _base_url(config: CockpitConfig, listeners: Sequence[Listener]) -> str | None:
    """Where browsers reach it; None: nowhere."""
    if config.web is not None and config.web.public_url is not None:
        return config.web.public_url
    return next((listener.url for listener in listeners if listener.url), None)


async def _serve(config: CockpitConfig) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with AsyncExitStack() as stack:
            controller = await stack.enter_async_context(open_cockpit(config))
            door = link_door(config, controller, now)
            listeners = await stack.enter_async_context(open_web(config, controller, door.routes()))
            await stack.enter_async_context(open_channels(config, controller, door, _base_url(config, listeners), now))
            _log.info("the cockpit runs", hosts=",".join(host.name for host in config.hosts))
            async for _ in signals:
                break
    _log.info("the cockpit ends")
