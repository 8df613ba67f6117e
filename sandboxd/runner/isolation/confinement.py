"""What does a run at `standard` or `strict` take from itself, and in which order?

All of it happens in the spawner's forked child, between fork and exec; what can be made ready before is. The order matters:
namespaces first, for Landlock forbids mounting; then Landlock, which needs paths; the filter last, for it forbids much of what
comes before it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import attrs

from sandboxd.runner.isolation import entry, landlock, places, seccomp
from sandboxd.runner.isolation.landlock import Ruleset
from sandboxd.runner.isolation.sandbox import Sandbox, View


@attrs.frozen
class Confinement:
    """One run's, ready before the fork. `scratch`: its temporary folder (`standard`); `sandbox`: its namespaces (`strict`)."""

    level: Literal["standard", "strict"]
    view: View
    landlock_abi: int
    filter: bytes
    scratch: str | None = None
    sandbox: Sandbox | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        """What the child needs besides, until it has exec'd."""
        inside = () if self.sandbox is None else self.sandbox.news_fds
        return (self.view.workspace.fd, *(bound.fd for bound in self.view.writable), *inside)

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
        rules = Ruleset(self.landlock_abi, network=self.view.network)
        self._allow(rules, writable)
        rules.restrict_self()

    def filter_calls(self) -> None:
        """The last step before exec."""
        seccomp.apply(self.filter)

    def _allow(self, rules: Ruleset, writable: Sequence[int]) -> None:
        view = self.view
        for path in (places.SYSTEM, *places.TOP, *view.read, view.program):
            rules.allow_path(path, landlock.RUN)
        for path in (*places.etc(network=view.network), *places.DEVICES_READ):
            rules.allow_path(path, landlock.READ)
        for path in places.DEVICES_WRITE:
            rules.allow_path(path, landlock.TERMINAL)
        # Of a network that is the host's, every process's folder in /proc tells all sockets.
        for path in ("/proc",) if self.sandbox is not None and not view.network else places.proc():
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
