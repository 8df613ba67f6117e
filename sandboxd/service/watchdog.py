"""Does the daemon still get anywhere?

systemd hears from us only after a whole round: the event loop took its turn, the store's writer put a row on disk, and one of
its readers saw it. So a loop that is stuck, a writer that hangs in its disk and a reader that never comes back each stop the
feeding, and systemd kills the daemon, its runs with it, and starts it anew. A store that says at once that it cannot write (the
disk is full) is not stuck: a restart would mend nothing and end every run, so that is `/readyz`'s business, not the watchdog's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from sandboxd.service.notify import Notifier
from sandboxd.store.base import StoreUnavailable

ROUNDS: Final = 3  # in the time after which systemd loses patience: sd_watchdog_enabled(3) asks for two at least


async def feed(notifier: Notifier, patience_s: float, check: Callable[[], Awaitable[None]], status: Callable[[], str]) -> None:
    """Go round until cancelled. `check`: `Store.check`; `status`: what `systemctl status` shows."""
    while True:
        try:
            await check()
            said = status()
        except StoreUnavailable as error:
            said = f"not ready: {error}"
        notifier.alive(said)
        await trio.sleep(patience_s / ROUNDS)
