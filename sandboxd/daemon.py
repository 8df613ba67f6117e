"""How does it all come together? (composition root: config → objects → one nursery)

`open_host` puts the engine together, for the daemon and for `sandboxd run` alike. `run` adds the doors, the signals and the
service manager. The order of the end: no new task, every run ended and on record, streams closed, doors closed, spawner gone,
store closed.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from sandboxd import __version__, logs
from sandboxd.a2a.extensions import TCK_REQUIRED
from sandboxd.config import Config
from sandboxd.courier.desk import Desk
from sandboxd.courier.link import Link
from sandboxd.entrances import couriers, open_doors
from sandboxd.errors import Unable
from sandboxd.garbage import spare_what_stays
from sandboxd.http.app import make_app
from sandboxd.http.auth import Gate
from sandboxd.http.card_keys import FILE_NAME as CARD_KEYS
from sandboxd.http.card_keys import CardKeys
from sandboxd.http.cards import Cards
from sandboxd.http.doors import Doors
from sandboxd.http.token_book import FILE_NAME as TOKEN_BOOK
from sandboxd.http.token_book import TokenBook
from sandboxd.live.clock import SystemClock
from sandboxd.live.quota import Quota
from sandboxd.live.supervisor import Supervisor
from sandboxd.loading import load_detectors, load_packs, load_policies
from sandboxd.operations.followers import Followers
from sandboxd.operations.host import Capabilities, Host, Instance
from sandboxd.operations.housekeeping import keep_house
from sandboxd.operations.outbox import Outbox
from sandboxd.operations.steady import SteadyClock
from sandboxd.operations.storage import Storage
from sandboxd.operations.unsent import Unsent
from sandboxd.policy.decide import LEVELS
from sandboxd.reload import Reloader, card_limits, tokens_of
from sandboxd.runner import birth
from sandboxd.runner.birth import Newborn
from sandboxd.runner.briefing import brief
from sandboxd.runner.client import open_spawner
from sandboxd.runner.setup import setup_of
from sandboxd.schemas.judge import open_judge
from sandboxd.service import counted, watchdog
from sandboxd.service.credentials import placed
from sandboxd.service.install import warn_of_drift
from sandboxd.service.manager import Manager
from sandboxd.service.notify import Notifier
from sandboxd.serving.listeners import Listener
from sandboxd.serving.pace import Pace
from sandboxd.serving.server import serve
from sandboxd.serving.settings import DoorSettings
from sandboxd.store.feed import Feed
from sandboxd.store.opening import Begun, begin_store
from sandboxd.store.recovery import recover
from sandboxd.store.schema import STORE_NAME
from sandboxd.store.sqlite import opened_store
from sandboxd.targets import Targets

LAST_RESORT_S: Final = 60.0  # below systemd's 90 s; the bounds that a stop has add up to some 35 s

_log = logs.logger(__name__)


class Unrecorded(Unable):
    """The daemon stopped, and the store did not take the ends of all tasks."""


class SpawnerDied(Unable):
    """The spawner died; the daemon ends, and whoever started it starts both anew."""


@asynccontextmanager
async def open_host(
    config: Config, cgroup: Path | None = None, newborn: Newborn | None = None, begun: Begun | None = None
) -> AsyncIterator[Host]:
    """The engine without doors. At the end of the block every run is over and on record.

    `cgroup`: the one that was delegated to this process; None: where it is, if that can be written. `newborn`: the spawner's
    process, and `begun`: the store, where they were begun already. Raises `LoadError` (a pack or policy), `StoreUnavailable`,
    `SpawnerUnavailable`; `Unrecorded` at the end, when the store did not take it.
    """
    clock = SystemClock()
    limits = config.limits
    unrecorded: Sequence[str] = ()
    async with AsyncExitStack() as stack:
        if newborn is None:
            newborn = await stack.enter_async_context(birth.newborn())
        if begun is None:
            begun = await stack.enter_async_context(begin_store(config.state_dir / STORE_NAME))
        store = await stack.enter_async_context(opened_store(begun))
        feed = Feed(store)
        stack.callback(feed.close)
        await brief(newborn, setup_of(config, cgroup))  # it makes itself ready while the packs are read here
        detectors = load_detectors()
        policies = load_policies(config, detectors)
        spawner = await stack.enter_async_context(open_spawner(None, newborn))
        if spawner.swept:
            _log.warning("ended runs that a dead daemon and its spawner left", cgroups=spawner.swept)
        # After the sweep: what is told to have ended must not be running still.
        if found := await recover(feed, clock.now(), lambda: str(uuid.uuid4())):
            _log.warning("resolved tasks that a dead daemon left", tasks=found)
        adapters, levels = await spawner.adapters(), spawner.levels
        judge = await stack.enter_async_context(open_judge())
        if any(policy.prompts.schema is not None for policy in policies):
            judge.warm_nowait()
        nursery = await stack.enter_async_context(trio.open_nursery())  # one task a live run: their errors must not be lost
        supervisor = Supervisor(
            feed,
            spawner,
            detectors,
            clock,
            nursery,
            quota=Quota(limits.max_tasks, limits.max_tasks_per_instance, limits.max_tasks_per_principal),
            max_events=limits.max_events,
            stop_grace_s=config.limits.stop_grace_s,
        )
        instances = {
            instance.id: Instance(
                instance.id, instance.shown, adapters.get(instance.id, ()), config.isolation.level, levels.get(instance.id, {})
            )
            for instance in config.instances
        }
        try:
            yield Host(
                instances,
                config.default_instance.id,
                store,
                feed,
                spawner,
                supervisor,
                clock,
                judge,
                capabilities=_capabilities(config),
                plays_scripts=config.tck is not None,
                outbox=Outbox(Targets(config.push.allow)) if config.push.enabled else None,
                storage=Storage(
                    config.state_dir, store.size_bytes, max_bytes=limits.max_store_bytes, min_free_bytes=limits.min_free_bytes
                ),
                followers=Followers(limits.max_subscribers, limits.max_subscribers_per_task),
                unsent=Unsent(limits.max_unsent_bytes),
            )
        finally:
            with trio.CancelScope(shield=True):  # bounded: `STOP_S`
                unrecorded = await supervisor.stop()
            nursery.cancel_scope.cancel()
    if unrecorded:
        why = "the store did not take them; the next start records them as `daemon-died`"
        raise Unrecorded(f"cannot put the ends of {len(unrecorded)} tasks on record: {why}")


async def run(
    written: Config,
    manager: Manager,
    cgroup: Path | None,
    hangups: AsyncIterator[int] | None,
    newborn: Newborn,
    *,
    begun: Begun,
) -> None:
    """The daemon, until it is told to stop. `hangups`: the SIGHUPs, each a wish for a reload."""
    config = placed(written, manager.credentials)
    settings = DoorSettings(
        public_url=config.public_url,
        max_body_bytes=config.limits.max_body_bytes,
        max_connections=config.limits.max_connections,
        keep_alive_s=config.limits.keepalive_s,
        ping_s=config.limits.ping_s,
    )
    tokens = list(tokens_of(config))
    async with open_host(config, cgroup, newborn, begun) as host:
        counted.note(written)  # the store is ours, and no door is open yet
        gate = Gate(tokens, lambda: host.spawner.pid, TokenBook(config.state_dir / TOKEN_BOOK, config.tokens))
        keys = CardKeys(config.state_dir / CARD_KEYS, host.clock.now())
        with ExitStack() as stack:
            # From the moment that somebody can reach it, being told to stop is no sudden death.
            stops = stack.enter_context(trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT))
            listeners = open_doors(config, settings, manager.sockets, stack)
            limits = card_limits(config)
            doors = Doors(
                host,
                gate,
                settings,
                __version__,
                checks={"store": host.store.check} | ({"disk": host.storage.check} if host.storage else {}),
                pace=Pace(config.limits.rate, config.limits.burst),
                cards=_cards(config, keys, listeners, limits),
            )
            reloader = Reloader(written, manager, host, doors.pace, tokens, limits, listeners, load_packs)
            async with trio.open_nursery() as nursery:  # the doors, and what watches over the daemon
                nursery.start_soon(_stop_on_signal, stops, host, doors, manager.notifier)
                nursery.start_soon(_reload_on_signal, hangups, reloader)
                nursery.start_soon(_watch_spawner, host, doors)
                nursery.start_soon(doors.presence.watch)
                steady = SteadyClock(host.clock, config.state_dir)
                nursery.start_soon(keep_house, host, lambda: reloader.config.retention, steady)
                if host.outbox is not None:
                    link = Link(tuple(str(network) for network in config.push.allow))
                    nursery.start_soon(Desk(host, link, host.outbox.targets, tries=config.push.tries, standing=gate).run)
                    nursery.start_soon(stack.enter_context(couriers(config, gate, manager.sockets)), link)
                if config.tck is not None:
                    _log.warning("plays the public kit's scripts for everyone on this machine", profile=config.tck)
                _warn_of_isolation(host)
                app = make_app(doors)  # takes its time: "ready" is a promise to answer
                spare_what_stays()
                _log.info(
                    "ready",
                    doors=", ".join(listener.address for listener in listeners),
                    isolation=config.isolation.level,
                    cgroup="yes" if host.spawner.no_cgroup is None else f"no: {host.spawner.no_cgroup}",
                )
                if manager.is_unit:
                    warn_of_drift(written)
                manager.notifier.ready("ready")
                if manager.watchdog_s is not None:
                    nursery.start_soon(
                        watchdog.feed, manager.notifier, manager.watchdog_s, host.store.check, lambda: _state(host, reloader)
                    )
                await serve(
                    app,
                    listeners,
                    settings,
                    closing=doors.closing,
                    who=gate.meet,
                    waited_s=lambda: host.supervisor.stopping_s,
                )
                if not host.spawner.is_alive and not host.spawner.is_closing:
                    raise SpawnerDied("cannot go on: the spawner died, and every run with it")
                nursery.cancel_scope.cancel()
    _log.info("stopped")


def _warn_of_isolation(host: Host) -> None:
    """What an operator must not learn from an accident: what runs unconfined, and what cannot run here at all."""
    for instance in host.instances.values():
        for adapter, level in instance.levels.items():
            if level == "none":
                _log.warning("runs WITHOUT ISOLATION, with all rights of this user", instance=instance.id, adapter=adapter)
            elif level not in LEVELS:
                _log.error("Cannot run an adapter's commands", instance=instance.id, adapter=adapter, reason=level)


def _state(host: Host, reloader: Reloader) -> str:
    live = f"{host.supervisor.live} tasks live"
    return f"{live}; {reloader.refused}" if reloader.refused else f"ready: {live}"


def _cards(config: Config, keys: CardKeys, listeners: Iterable[Listener], limits: Mapping[str, Any]) -> Cards:
    tcp = next((listener for listener in listeners if listener.door == "tcp"), None)
    return Cards(keys, config.card == "merged", config.public_url, tcp, limits)


def _capabilities(config: Config) -> Capabilities:
    match config.tck:
        case "caps-off":
            return Capabilities(streaming=False)
        case "required-extension":
            return Capabilities(push_notifications=config.push.enabled, required_extensions=(TCK_REQUIRED,))
        case _:
            return Capabilities(push_notifications=config.push.enabled, extended_card=True)


async def _stop_on_signal(stops: AsyncIterator[int], host: Host, doors: Doors, notifier: Notifier) -> None:
    async def stop() -> None:
        await host.supervisor.stop()
        doors.closing.set()
        await host.spawner.close()  # every run is over: it goes while clients take what they were told, and not after that

    async with trio.open_nursery() as nursery:
        stopping = False
        async for number in stops:
            name = signal.Signals(number).name
            if stopping:  # told twice: every wait of a stop has its own bound, and none gets shorter by it
                _log.info("already stopping", signal=name)
                continue
            stopping = True
            _log.info("stopping", signal=name)
            notifier.stopping("stopping; what is live ends, and open questions with it")
            _exit_in_the_end()
            nursery.start_soon(stop)


def _exit_in_the_end() -> None:
    """Everything that a stop waits for has a bound but the disk: a thread that hangs in a write never comes back."""

    def exit_now() -> None:
        os.write(2, f"error: cannot stop within {LAST_RESORT_S:g} s: exiting as it is\n".encode())
        os._exit(1)

    timer = threading.Timer(LAST_RESORT_S, exit_now)
    timer.daemon = True
    timer.start()


async def _reload_on_signal(hangups: AsyncIterator[int] | None, reloader: Reloader) -> None:
    if hangups is not None:
        async for _ in hangups:
            await reloader.reload()


async def _watch_spawner(host: Host, doors: Doors) -> None:
    await host.spawner.wait_died()
    if host.spawner.is_closing:
        return
    _log.error("Cannot go on: the spawner died, and every run with it")
    await host.supervisor.stop()  # every run has ended already: this waits for their records, and has its own bound
    doors.closing.set()  # as for any other end: who waits for an answer gets one
