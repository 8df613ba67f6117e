"""How does the relay come up beside a cockpit's doors?"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import trio

from sandboxd import __version__
from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.relay.desk import Relay
from sandboxd.cockpit.relay.web import RelayDoor
from sandboxd.serving.private_file import make_private, read_private

ID_NAME: Final = "relay.id"  # within the cockpit's state folder; by it a task that comes round is known


def relay_door(config: CockpitConfig, controller: Controller, clock: Callable[[], datetime]) -> RelayDoor | None:
    """The routes of callers, if the config names one; `LoadError` when the id cannot be kept."""
    if not config.relay.callers:
        return None
    path = config.state_dir / ID_NAME
    make_private(path, str(uuid.uuid4()) + "\n")
    return RelayDoor(Relay(controller, config.relay, read_private(path).strip(), clock), __version__)


@asynccontextmanager
async def open_relay(door: RelayDoor | None) -> AsyncIterator[None]:
    """Pass questions on for as long as the block runs."""
    async with trio.open_nursery() as nursery:  # the relay
        if door is not None:
            nursery.start_soon(door.relay.run)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()
