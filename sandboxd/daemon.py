"""How does it all come together? (composition root: config → objects → one nursery)

`open_host` puts the engine together, for the daemon and for `sandboxd run` alike. `main` adds the doors and the signals. The
order of the end: no new task, every run ended and on record, streams closed, doors closed, spawner gone, store closed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from sandboxd import __version__, logs, packs
from sandboxd.a2a.extensions import TCK_REQUIRED
from sandboxd.config import DEFAULT_PATH, Config, parse_config
from sandboxd.config_push import SOCKET_NAME
from sandboxd.courier.desk import Desk
from sandboxd.courier.keeper import keep_child, keep_door
from sandboxd.courier.link import Link
from sandboxd.detect.load import Pack, load_pack
from sandboxd.errors import LoadError, Problem
from sandboxd.http.app import make_app
from sandboxd.http.auth import Gate
from sandboxd.http.card_keys import FILE_NAME as CARD_KEYS
from sandboxd.http.card_keys import CardKeys
from sandboxd.http.cards import Cards
from sandboxd.http.doors import Doors
from sandboxd.http.listeners import CannotListen, Listener, tcp_listener, unix_listener
from sandboxd.http.pace import Pace
from sandboxd.http.server import serve
from sandboxd.http.settings import DoorSettings
from sandboxd.http.tls import tls_context
from sandboxd.http.token_book import FILE_NAME as TOKEN_BOOK
from sandboxd.http.token_book import TokenBook
from sandboxd.http.tokens import load_tokens
from sandboxd.live.clock import SystemClock
from sandboxd.live.supervisor import Supervisor
from sandboxd.operations.host import Capabilities, Host, Instance
from sandboxd.operations.housekeeping import keep_house
from sandboxd.operations.outbox import Outbox
from sandboxd.policy.decide import LEVELS
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Policy
from sandboxd.runner import linux
from sandboxd.runner.client import SpawnerUnavailable, open_spawner
from sandboxd.runner.protocol import InstanceSetup, SpawnerSetup
from sandboxd.schemas.evaluate import misuse
from sandboxd.schemas.judge import open_judge
from sandboxd.store.base import StoreUnavailable
from sandboxd.store.feed import Feed
from sandboxd.store.recovery import recover
from sandboxd.store.sqlite import open_store
from sandboxd.targets import Targets

STORE_NAME: Final = "sandboxd.sqlite3"
SCRATCH_NAME: Final = "scratch"  # temporary folders of runs at `standard`
PORT_NAME: Final = "tcp-port"  # where the kernel's choice of a port can be read

LAST_RESORT_S: Final = 60.0  # below systemd's 90 s; the bounds that a stop has add up to some 35 s

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 78  # EX_CONFIG (sysexits.h): systemd need not try again

_log = logs.logger(__name__)


class Unrecorded(Exception):
    """The daemon stopped, and the store did not take the ends of all tasks."""


class SpawnerDied(Exception):
    """The spawner died; the daemon ends, and whoever started it starts both anew."""


_EXPECTED: Final = (LoadError, StoreUnavailable, SpawnerUnavailable, CannotListen, SpawnerDied, Unrecorded, OSError)


@asynccontextmanager
async def open_host(config: Config) -> AsyncIterator[Host]:
    """The engine without doors. At the end of the block every run is over and on record.

    Raises `LoadError` (a pack or policy), `StoreUnavailable`, `SpawnerUnavailable`; `Unrecorded` at the end, when the store did
    not take it.
    """
    detectors = load_detectors()
    policies = _check_policies(config, detectors)
    clock = SystemClock()
    unrecorded: Sequence[str] = ()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(config.state_dir / STORE_NAME))
        feed = Feed(store)
        stack.callback(feed.close)
        spawner = await stack.enter_async_context(open_spawner(_spawner_setup(config)))
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
            max_tasks=config.limits.max_tasks,
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
            )
        finally:
            with trio.CancelScope(shield=True):  # bounded: `STOP_S`
                unrecorded = await supervisor.stop()
            nursery.cancel_scope.cancel()
    if unrecorded:
        why = "the store did not take them; the next start records them as `daemon-died`"
        raise Unrecorded(f"cannot put the ends of {len(unrecorded)} tasks on record: {why}")


def main(config_path: Path | None = None) -> int:
    """Run the daemon until SIGTERM or SIGINT; the exit status."""
    logs.configure()
    try:
        file = packs.read(config_path or DEFAULT_PATH)  # it grants execution, so it is as closely held as a policy
        config = parse_config(file.path, file.text)
        _refuse_root(config)
        os.umask(0o077)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)  # a task of the same user may not look into this process, nor may a core file
        _make_state_dir(config)
        trio.run(_serve, config)
    except BaseException as error:
        return _last_word(error)
    return EXIT_OK


def load_detectors() -> Mapping[str, Pack]:
    """Every detector pack of this host, by name; `LoadError`."""
    return {file.name: load_pack(str(file.path), file.text) for file in packs.search("detectors")}


async def _serve(config: Config) -> None:
    settings = DoorSettings(
        public_url=config.public_url,
        max_body_bytes=config.limits.max_body_bytes,
        max_connections=config.limits.max_connections,
        keep_alive_s=config.limits.keepalive_s,
        ping_s=config.limits.ping_s,
    )
    tokens = load_tokens(config.tokens) if config.listen.tcp and not config.listen.unauthenticated else ()
    async with open_host(config) as host:
        gate = Gate(tokens, lambda: host.spawner.pid, TokenBook(config.state_dir / TOKEN_BOOK, config.tokens))
        keys = CardKeys(config.state_dir / CARD_KEYS, host.clock.now())
        with ExitStack() as stack:
            listeners = list(_listeners(config, settings, stack))
            doors = Doors(
                host,
                gate,
                settings,
                __version__,
                checks={"store": host.store.check},
                pace=Pace(config.limits.rate, config.limits.burst),
                cards=_cards(config, keys, listeners),
            )
            async with trio.open_nursery() as nursery:  # the doors, and what watches over the daemon
                nursery.start_soon(_stop_on_signal, host, doors)
                nursery.start_soon(_watch_spawner, host, doors)
                nursery.start_soon(keep_house, host, config.retention)
                if host.outbox is not None:
                    link = Link(tuple(str(network) for network in config.push.allow))
                    nursery.start_soon(Desk(host, link, host.outbox.targets, tries=config.push.tries).run)
                    nursery.start_soon(stack.enter_context(_couriers(config, gate)), link)
                if config.tck is not None:
                    _log.warning("plays the public kit's scripts for everyone on this machine", profile=config.tck)
                _warn_of_isolation(host)
                _log.info(
                    "ready",
                    doors=", ".join(listener.address for listener in listeners),
                    isolation=config.isolation.level,
                    cgroup="yes" if host.spawner.no_cgroup is None else f"no: {host.spawner.no_cgroup}",
                )
                await serve(make_app(doors), listeners, settings, closing=doors.closing, who=gate.meet)
                if not host.spawner.is_alive:
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


def _cards(config: Config, keys: CardKeys, listeners: Iterable[Listener]) -> Cards:
    limits = {
        "max_tasks": config.limits.max_tasks,
        "max_body_bytes": config.limits.max_body_bytes,
        "requests_per_s": config.limits.rate,
    }
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


@contextmanager
def _couriers(config: Config, gate: Gate) -> Iterator[Callable[[Link], Awaitable[None]]]:
    """What keeps a courier on the link."""
    if config.push.courier == "child":
        yield keep_child
        return
    with unix_listener(config.state_dir / SOCKET_NAME) as listener:
        accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener.socket))

        def refusal(accepted: trio.socket.SocketType) -> str:
            return gate.meet(listener, accepted).refusal

        yield partial(keep_door, listener=accepting, refusal=refusal)


async def _stop_on_signal(host: Host, doors: Doors) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            _log.info("stopping", signal=signal.Signals(number).name)
            _exit_in_the_end()
            await host.supervisor.stop()
            doors.closing.set()


def _exit_in_the_end() -> None:
    """Everything that a stop waits for has a bound but the disk: a thread that hangs in a write never comes back."""

    def exit_now() -> None:
        os.write(2, f"error: cannot stop within {LAST_RESORT_S:g} s: exiting as it is\n".encode())
        os._exit(EXIT_FAILED)

    timer = threading.Timer(LAST_RESORT_S, exit_now)
    timer.daemon = True
    timer.start()


async def _watch_spawner(host: Host, doors: Doors) -> None:
    await host.spawner.wait_died()
    _log.error("Cannot go on: the spawner died, and every run with it")
    await host.supervisor.stop()  # every run has ended already: this waits for their records, and has its own bound
    doors.closing.set()  # as for any other end: who waits for an answer gets one


def _listeners(config: Config, settings: DoorSettings, stack: ExitStack) -> Iterable[Listener]:
    if config.listen.unix is not None:
        yield stack.enter_context(unix_listener(config.listen.unix))
    if config.listen.tcp is not None:
        tcp = config.listen.tcp
        tls = tls_context(config.listen.tls) if config.listen.tls else None
        open_access = config.listen.unauthenticated
        listener = stack.enter_context(
            tcp_listener(tcp.host, tcp.port, stall_s=settings.stall_s, open_access=open_access, tls=tls)
        )
        port_file = config.state_dir / PORT_NAME
        port_file.write_text(f"{listener.address.rpartition(':')[2]}\n")
        stack.callback(port_file.unlink, missing_ok=True)
        yield listener


def _spawner_setup(config: Config) -> SpawnerSetup:
    instances = tuple(
        InstanceSetup(instance.id, str(instance.root), instance.shown, tuple(map(str, instance.policies)))
        for instance in config.instances
    )
    isolation = config.isolation
    return SpawnerSetup(
        instances,
        dict(config.programs),
        isolation.level,
        read=tuple(map(str, isolation.read)),
        bubblewrap=str(isolation.bubblewrap),
        scratch=str(config.state_dir / SCRATCH_NAME),
    )


def _check_policies(config: Config, detectors: Mapping[str, Pack]) -> Sequence[Policy]:
    """A policy that names a pack which is not there, or has a schema that is none, must fail now, not when it is used."""
    policies = []
    for path in {path for instance in config.instances for path in instance.policies}:
        file = packs.read(path)
        policies.append(load_policy(str(path), file.text, file.digest))
        prompts = policies[-1].prompts
        if prompts.schema is not None and (why := misuse(prompts.schema)):
            raise LoadError(str(path), [Problem("prompts.schema", f"is no schema of draft 2020-12: {why}")])
        missing = [name for name in prompts.detectors if name not in detectors]
        if missing:
            known = ", ".join(f"`{name}`" for name in detectors)
            raise LoadError(
                str(path), [Problem("prompts.detectors", f"no pack is named `{name}`; there are {known}") for name in missing]
            )
    return policies


def _refuse_root(config: Config) -> None:
    if os.geteuid() == 0 and not config.listen.allow_root:
        why = "commands would run as root; run it as a user of its own, or say `allow_root = true` if that is meant"
        raise LoadError(str(config.source or DEFAULT_PATH), [Problem("listen.allow_root", why)])


def _make_state_dir(config: Config) -> None:
    try:
        config.state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot make the folder `{config.state_dir}`: {(error.strerror or str(error)).lower()}"
        raise LoadError(str(config.source or DEFAULT_PATH), [Problem("state_dir", why)]) from error


def _last_word(error: BaseException) -> int:
    """Say why the daemon ended to whoever started it; a bug of ours is raised again."""
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, _EXPECTED) for leaf in leaves):
        raise error
    for leaf in leaves:
        sys.stderr.write(f"error: {leaf}\n")  # not the log: that is for what happens while it runs
    return EXIT_CONFIG if all(isinstance(leaf, LoadError) for leaf in leaves) else EXIT_FAILED


def _leaves(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
