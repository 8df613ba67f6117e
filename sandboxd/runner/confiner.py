"""What must be made for one run before it can be confined, and who takes it away afterwards?

At `standard` a temporary folder, at `strict` namespaces. The spawner's one thread owns all of it; the folders are measured, and
in the end removed, bit by bit between its other work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from sandboxd.runner.isolation import sandbox, seccomp
from sandboxd.runner.isolation.confinement import Confinement, begin_rules
from sandboxd.runner.isolation.levels import Host
from sandboxd.runner.isolation.sandbox import View
from sandboxd.runner.isolation.seccomp import Filter
from sandboxd.runner.meter import Meter
from sandboxd.runner.protocol import SpawnerSetup
from sandboxd.runner.scratch import Scratch
from sandboxd.runner.seat import Admitted
from sandboxd.values import frozen

_TMPDIR: Final = "TMPDIR"


@cache
def _filter_for(machine: str, *, network: bool, alone: bool, hidden: tuple[int, ...]) -> Filter:
    return Filter(seccomp.filter_for(machine, network=network, alone=alone, hidden=hidden))


@frozen
class Confined:
    """What one run has of this. `env`: variables for it; `sessions`: those of processes that are no part of what it started."""

    confinement: Confinement | None = None
    env: Mapping[str, str] = attrs.field(factory=dict)
    sessions: frozenset[int] = frozenset()


class Confiner:
    """Makes runs' surroundings and removes them."""

    def __init__(self, setup: SpawnerSetup) -> None:
        self._setup = setup
        self._meter = Meter()
        is_there = setup.scratch is not None and Path(setup.scratch).is_dir()
        self._scratch = Scratch(setup.scratch) if is_there else None  # what a dead spawner left goes away, whatever the level

    def timeout_s(self) -> float | None:
        """How long nothing is to be done here; None: for ever."""
        is_tidy = self._scratch is None or self._scratch.is_clean
        return self._meter.timeout_s() if is_tidy else 0.0

    def prepare(self, admitted: Admitted, host: Host, *, cgroup_fd: int | None, marker: str) -> Confined:
        """Everything for one run at its level; `OSError`, `sandbox.Unusable`. Then `started`, and `release` in the end."""
        plan = admitted.plan
        if plan.isolation == "none":
            return Confined()
        view = View(
            plan.program,
            admitted.workspace,
            admitted.writable,
            self._setup.read,
            network=plan.network,
            tmp_bytes=plan.tmp_bytes,
        )
        ours = (os.getpid(), os.getppid())  # the spawner and the daemon, for as long as any run is there
        calls = _filter_for(os.uname().machine, network=plan.network, alone=plan.isolation == "strict", hidden=ours)
        if plan.isolation == "standard":
            self._scratch = self._scratch or Scratch(self._setup.scratch)
            rules = begin_rules(view, host.landlock_abi, has_proc=False)
            try:
                folder = self._scratch.make()
            except OSError:
                rules.close()
                raise
            confinement = Confinement("standard", view, host.landlock_abi, calls, scratch=folder, rules=rules)
            return Confined(confinement, {_TMPDIR: folder})
        made = sandbox.begin(view, bubblewrap=self._setup.bubblewrap, cgroup_fd=cgroup_fd, marker=marker)
        confinement = Confinement("strict", view, host.landlock_abi, calls, sandbox=made)
        return Confined(confinement, sessions=frozenset({made.pid}))

    def measure(
        self, confined: Confined, most_bytes: int, *, members: Callable[[], Collection[int]], passed: Callable[[], None]
    ) -> None:
        """From now on, see that its temporary folder does not hold more than that; see `Meter.watch`."""
        if confined.confinement is not None and (folder := confined.confinement.scratch) is not None:
            self._meter.watch(folder, most_bytes, members=members, passed=passed)

    def started(self, confined: Confined) -> None:
        """The run is in its surroundings, or never will be: close what it needed to get there."""
        if confined.confinement is not None:
            for fd in confined.confinement.made_fds:
                os.close(fd)

    def release(self, confined: Confined, *, is_unused: bool = False) -> None:
        """The run is over, or never began (`is_unused`): end its namespaces, have its folder removed."""
        if confined.confinement is None:
            return
        if confined.confinement.sandbox is not None:
            if is_unused:
                confined.confinement.sandbox.undo()
            else:
                confined.confinement.sandbox.close()
        if confined.confinement.scratch is not None and self._scratch is not None:
            self._meter.forget(confined.confinement.scratch)
            self._scratch.remove_soon(confined.confinement.scratch)

    def do_some(self) -> None:
        """A small piece of what waits to be measured, and of what waits to be removed."""
        self._meter.look_some()
        if self._scratch is not None:
            self._scratch.remove_some()

    def close(self, deadline: float) -> None:
        """Remove what can be removed until then; the rest is found by the next start."""
        if self._scratch is None:
            return
        while not self._scratch.is_clean and time.monotonic() < deadline:
            self._scratch.remove_some()
        self._scratch.close()
