"""What is forgotten, when, and where does its space go?

Once an hour: what the config keeps no longer goes, in pieces, so that nobody waits long behind it, and its space is given
back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import trio

from sandboxd import logs
from sandboxd.config import Retention
from sandboxd.operations.host import Host
from sandboxd.operations.steady import SteadyClock
from sandboxd.store.base import StoreUnavailable

EVERY_S: Final = 3600.0
BATCH: Final = 500
VACUUM_BYTES: Final = 1024 * 1024  # a piece: some 10 ms of the writer's time

_log = logs.logger(__name__)


async def keep_house(host: Host, retention: Callable[[], Retention], clock: SteadyClock) -> None:
    """Tidy up now and every hour, by what the config says then, until cancelled."""
    while True:
        try:
            await tidy_up(host, retention(), await clock.now())
        except StoreUnavailable as error:
            _log.error("Cannot remove what is old", error=str(error))
        await trio.sleep(EVERY_S)


async def tidy_up(host: Host, retention: Retention, now: datetime) -> None:
    """Forget what is due at that time; `StoreUnavailable`."""
    store = host.store
    for days, forget in (
        (retention.tasks_days, store.prune),
        (retention.output_days, store.prune_output),
        (retention.events_days, store.prune_events),
    ):
        if days:
            await _in_pieces(partial(forget, ended_before=now - timedelta(days=days), limit=BATCH))
    await _in_pieces(partial(_forget_sends, host, now))
    await _in_pieces(partial(store.forget_audit, before=now - timedelta(days=retention.audit_days), limit=BATCH))
    if retention.vacuum:
        await _give_space_back(host)


async def _forget_sends(host: Host, now: datetime) -> int:
    return await host.store.forget_sends(before=now - timedelta(seconds=host.once.ttl_s), limit=BATCH)


async def _in_pieces(forget: Callable[[], Awaitable[int]]) -> None:
    while await forget() == BATCH:
        await trio.lowlevel.checkpoint()


async def _give_space_back(host: Host) -> None:
    unused = await host.store.compact(max_bytes=VACUUM_BYTES)
    while unused:
        left = await host.store.compact(max_bytes=VACUUM_BYTES)
        if left >= unused:
            return
        unused = left
