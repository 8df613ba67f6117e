"""What may change while the daemon runs, and how does it change all at once?

SIGHUP. Everything is read and checked first, by the daemon and, for what may run, by the spawner itself; only then does any
of it count, within one turn of the event loop. If one thing is wrong, nothing changes and all of it is told, and the status
line says so until a reload is taken. A key that takes a restart (`service.counted`) is refused by its name. Runs that are
there go on by what they began with, and their questions stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from sandboxd import logs, metrics, packs
from sandboxd.config import Config, parse_config, to_json
from sandboxd.detect.load import Pack
from sandboxd.errors import LoadError, Problem
from sandboxd.http.token_book import FILE_NAME as TOKEN_BOOK
from sandboxd.http.token_book import TokenBook
from sandboxd.http.tokens import Token, load_tokens
from sandboxd.live.quota import Quota
from sandboxd.operations.host import Host
from sandboxd.service import counted
from sandboxd.service.credentials import placed
from sandboxd.service.install import warn_of_drift
from sandboxd.service.manager import Manager
from sandboxd.serving.listeners import Listener
from sandboxd.serving.pace import Pace
from sandboxd.serving.tls import tls_context

_log = logs.logger(__name__)


@attrs.define(eq=False)
class Reloader:
    """`config` is what counts now, as the file has it. `read_packs` reads and checks what a start reads and checks.

    `tokens`, `card_limits`: those that the doors go by; both are filled anew.
    """

    config: Config
    manager: Manager
    host: Host
    pace: Pace
    tokens: list[Token]
    card_limits: dict[str, Any]
    listeners: list[Listener]
    read_packs: Callable[[Config], Mapping[str, Pack]]
    refused: str = ""  # why the last reload was, if it was

    async def reload(self) -> None:
        """Go by the file as it is now, or tell why not and go on as before. Never raises for what an operator wrote."""
        notifier = self.manager.notifier
        notifier.reloading()
        try:
            changed = await self._reload()
        except LoadError as error:
            metrics.RELOADS.labels(outcome="refused").inc()
            _log.error("Cannot reload, so nothing has changed", why=str(error))
            self.refused = f"reload refused, the old config counts: {error}"
            notifier.ready(self.refused)
            return
        self.refused = ""
        metrics.RELOADS.labels(outcome="done").inc()
        if self.manager.is_unit:
            warn_of_drift(self.config)  # folders that tasks may write are the unit's mounts
        _log.info("reloaded", changed=", ".join(changed) or "nothing of the config")
        notifier.ready("ready; reloaded")

    async def _reload(self) -> list[str]:
        if self.config.source is None:
            raise LoadError("", [Problem("", "there is no config that could be read again")])
        file = packs.read(self.config.source)
        config = parse_config(file.path, file.text)
        changed = counted.changes(to_json(self.config), to_json(config))
        if fixed := counted.fixed(changed):
            raise LoadError(str(file.path), fixed)
        detectors = self.read_packs(config)
        adapters = await self.host.spawner.prepare_reload(file.digest)
        try:
            found = placed(config, self.manager.credentials)
            contexts = [tls_context(found.listen.tls) if at.tls and found.listen.tls else None for at in self.listeners]
            tokens = tokens_of(found)
            TokenBook(found.state_dir / TOKEN_BOOK, found.tokens)  # for its opinion on the names
        except BaseException:
            await self.host.spawner.adopt(is_wanted=False)
            raise
        await self.host.spawner.adopt(is_wanted=True)
        # No checkpoint from here on: no request meets half of it.
        limits = config.limits
        self.config = config
        self.tokens[:] = tokens
        self.pace.change(limits.rate, limits.burst)
        quota = Quota(limits.max_tasks, limits.max_tasks_per_instance, limits.max_tasks_per_principal)
        self.host.supervisor.change(detectors, quota=quota, max_events=limits.max_events, stop_grace_s=limits.stop_grace_s)
        self.host.allow(adapters)
        self.card_limits.update(card_limits(config))
        for listener, context in zip(self.listeners, contexts, strict=True):
            listener.tls = context
        counted.note(config)
        return changed


def tokens_of(config: Config) -> tuple[Token, ...]:
    """The config's tokens, where it has a door that asks for one; `LoadError`."""
    return load_tokens(config.tokens) if config.listen.tcp and not config.listen.unauthenticated else ()


def card_limits(config: Config) -> dict[str, Any]:
    """What extended cards tell of this host's limits."""
    return {
        "max_tasks": config.limits.max_tasks,
        "max_body_bytes": config.limits.max_body_bytes,
        "requests_per_s": config.limits.rate,
    }
