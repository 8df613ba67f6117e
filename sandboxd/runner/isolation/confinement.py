"""What does a run at `standard` or `strict` take from itself, and in which order?

All of it happens in the spawner's forked child, between fork and exec; what can be made ready before is (`begin_rules`), since
there it takes two thirds of the time: a forked child copies every page that it writes to. The order matters: namespaces first,
for Landlock forbids mounting; then Landlock, which needs paths; the filter last, for it forbids much of what comes before it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from sandboxd.runner.isolation import entry, landlock, places
from sandboxd.runner.isolation.landlock import Ruleset
from sandboxd.runner.isolation.sandbox import Sandbox, View
from sandboxd.runner.isolation.seccomp import Filter
from sandboxd.values import frozen


@frozen
class Confinement:
    """One run's, ready before the fork. `scratch`: its temporary folder (`standard`); `sandbox`: its namespaces (`strict`).

    `rules`: those of `begin_rules`, where the run sees what the spawner sees (`standard`); in namespaces the child makes them.
    """

    level: Literal["standard", "strict"]
    view: View
    landlock_abi: int
    filter: Filter
    scratch: str | None = None
    sandbox: Sandbox | None = None
    rules: Ruleset | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        """What the child needs besides, until it has exec'd."""
        inside = self.made_fds
        return (self.view.workspace.fd, *(bound.fd for bound in self.view.writable), *inside)

    @property
    def made_fds(self) -> tuple[int, ...]:
        """What of that was made for this run, and is the spawner's to close."""
        return (*(() if self.sandbox is None else self.sandbox.news_fds), *(() if self.rules is None else (self.rules.fd,)))

    def writable(self) -> list[int]:
        """Descriptors of what may be written, as this child finds it: in namespaces it is put in its place first."""
        return [bound.fd for bound in self.view.writable] if self.sandbox is None else entry.put_in_place(self.view)

    def folder(self, relative: str, outside_fd: int) -> int:
        """The working directory as this child has to enter it."""
        return outside_fd if self.sandbox is None else entry.open_folder(self.view, relative, outside_fd)

    def bind(self, writable: Sequence[int]) -> None:
        """Give up every right but those of the view. no_new_privs must be set."""
        if self.sandbox is not None:
            entry.drop_capabilities()
        rules = self.rules or begin_rules(self.view, self.landlock_abi, has_proc=not self.view.network)
        self._allow_own(rules, writable)
        rules.restrict_self()

    def filter_calls(self) -> None:
        """The last step before exec."""
        self.filter.apply()

    def _allow_own(self, rules: Ruleset, writable: Sequence[int]) -> None:
        view = self.view
        # Of a network that is the host's, every process's folder in /proc tells all sockets.
        for path in ("/proc",) if self.sandbox is not None and not view.network else places.own_proc():
            rules.allow_path(path, landlock.READ)
        if os.isatty(0):
            rules.allow(0, landlock.TERMINAL)
        if self.sandbox is None:
            rules.allow(view.workspace.fd, landlock.READ)
        else:
            rules.allow_path(view.workspace.at, landlock.READ)
        for fd in writable:
            rules.allow(fd, landlock.WRITE)
        for path in (places.TMP,) if self.sandbox is not None else (self.scratch,) if self.scratch else ():
            rules.allow_path(path, landlock.SCRATCH)


def begin_rules(view: View, landlock_abi: int, *, has_proc: bool) -> Ruleset:
    """Rules for what of the host every run sees, by the names that it has here and now; `OSError`.

    `has_proc`: all of /proc is the run's own, which the child allows.
    """
    rules = Ruleset(landlock_abi, network=view.network)
    for path in (places.SYSTEM, *places.TOP, *view.read, view.program):
        rules.allow_path(path, landlock.RUN)
    for path in (*places.etc(network=view.network), *places.DEVICES_READ, *(() if has_proc else places.PROC)):
        rules.allow_path(path, landlock.READ)
    for path in places.DEVICES_WRITE:
        rules.allow_path(path, landlock.TERMINAL)
    return rules
