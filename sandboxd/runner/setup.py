"""What is the spawner told, and what of it may change while it runs?

Whoever took over the daemon's HTTP side must not be able to have the spawner allow more. So a reload brings no policies: the
spawner is told that there is something new, and reads the operator's files itself, by the names that it was given at its start.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

import attrs

from sandboxd import packs
from sandboxd.config import Config, parse_config
from sandboxd.errors import LoadError, Problem
from sandboxd.runner.protocol import FrameReader, InstanceSetup, SpawnerSetup, setup_from_json

RUNS_SPARE: Final = 16  # beyond the live tasks: what is being ended for a caller who went away while it was started
LATE_S: Final = 30.0  # the spawner ends what the daemon has not ended by then: it hangs, or is somebody else's
_READ_BYTES: Final = 65_536

SCRATCH_NAME: Final = "scratch"  # below the state folder: temporary folders of runs at `standard`


def setup_of(config: Config, cgroup: Path | None = None) -> SpawnerSetup:
    """The setup that the config means. `cgroup`: as `SpawnerSetup.cgroup`."""
    instances = tuple(
        InstanceSetup(instance.id, str(instance.root), instance.shown, tuple(map(str, instance.policies)))
        for instance in config.instances
    )
    source = None if config.source is None else str(config.source)
    return absolute(
        SpawnerSetup(
            instances,
            dict(config.programs),
            config.isolation.level,
            None if cgroup is None else str(cgroup),
            source,
            tuple(map(str, config.isolation.read)),
            str(config.isolation.bubblewrap),
            str(config.state_dir / SCRATCH_NAME),
            _closed(config),
            max_runs=config.limits.max_tasks + RUNS_SPARE,
            late_s=2 * config.limits.stop_grace_s + LATE_S,  # the stop ladder's INT and TERM, and then some
        )
    )


def _closed(config: Config) -> tuple[str, ...]:
    keys = (config.listen.tls.key,) if config.listen.tls else ()
    return tuple(str(path.absolute()) for path in (config.state_dir, *config.tokens.values(), *keys))


def read_setup(sock: socket.socket, reader: FrameReader) -> SpawnerSetup | None:
    """What the daemon says first; None: it went away. Blocks."""
    while (received := reader.next_frame()) is None:
        data = sock.recv(_READ_BYTES)
        if not data:
            return None
        reader.feed(data)
    return setup_from_json(received[0]["setup"])


def absolute(setup: SpawnerSetup) -> SpawnerSetup:
    """The spawner's current directory is `/`, so what was meant from here is said in full."""
    instances = tuple(
        attrs.evolve(
            one, root=str(Path(one.root).absolute()), policies=tuple(str(Path(name).absolute()) for name in one.policies)
        )
        for one in setup.instances
    )
    source = None if setup.source is None else str(Path(setup.source).absolute())
    scratch = None if setup.scratch is None else str(Path(setup.scratch).absolute())
    return attrs.evolve(setup, instances=instances, source=source, scratch=scratch)


def renewed(setup: SpawnerSetup, digest: str) -> SpawnerSetup:
    """The setup as the config means it now: other policies, other programs. `digest`: of the config that the daemon read.

    `LoadError` when the file is not that one, does not hold, or changes what cannot change without a restart.
    """
    if setup.source is None:
        raise LoadError("", [Problem("", "there is no config that could be read again")])
    file = packs.read(Path(setup.source))
    if file.digest != digest:
        raise LoadError(setup.source, [Problem("", "it changed while it was read")])
    new = setup_of(parse_config(file.path, file.text))
    if _fixed(new) != _fixed(setup):
        raise LoadError(setup.source, [Problem("instance", "instances, roots and isolation take a restart")])
    return attrs.evolve(new, cgroup=setup.cgroup)


def _fixed(setup: SpawnerSetup) -> SpawnerSetup:
    instances = tuple(attrs.evolve(instance, policies=()) for instance in setup.instances)
    return attrs.evolve(setup, instances=instances, programs={}, closed=(), cgroup=None, max_runs=0, late_s=0.0)
