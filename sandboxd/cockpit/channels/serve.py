"""How do a cockpit's channels come up beside its doors?"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import trio

from sandboxd.cockpit.channels.desk import Desk, links_below
from sandboxd.cockpit.channels.inbound import Inbound
from sandboxd.cockpit.channels.signing import LinkKey
from sandboxd.cockpit.channels.web import LinkDoor
from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.controller import Controller
from sandboxd.serving.private_file import make_private, read_private

KEY_NAME: Final = "link.key"  # within the cockpit's state folder; without it, links that were sent lead nowhere


def link_door(config: CockpitConfig, controller: Controller, clock: Callable[[], datetime]) -> LinkDoor:
    """The routes of links and signed answers; `LoadError` when the key of links cannot be kept."""
    path = config.state_dir / KEY_NAME
    make_private(path, secrets.token_hex(32) + "\n")
    key = LinkKey(bytes.fromhex(read_private(path).strip()))
    webhooks = {webhook.name: webhook for webhook in config.webhooks}
    return LinkDoor(key, Inbound(webhooks, config.people, controller, clock))


@asynccontextmanager
async def open_channels(
    config: CockpitConfig, controller: Controller, door: LinkDoor, base_url: str | None, clock: Callable[[], datetime]
) -> AsyncIterator[None]:
    """Tell the channels for as long as the block runs; `base_url`: where links lead."""
    desk = Desk(controller.records, config.webhooks, links_below(base_url, door.key), clock)
    async with trio.open_nursery() as nursery:  # the desk
        nursery.start_soon(desk.run)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()  # what is cut short is sent again at the next start
