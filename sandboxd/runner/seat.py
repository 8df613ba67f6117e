"""May that request run, and in which folder exactly?

The policy's seat, inside the spawner: the policies are read at start and at a reload, from files that only root or the daemon's
user can have written; the roots are opened once. A root that is missing then is looked for again with each request, so a
workspace that is mounted late needs no restart; one that was opened is never looked up by name again.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from sandboxd import packs
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.decide import LEVELS, Subject, decide
from sandboxd.policy.load import check_together, load_policy
from sandboxd.policy.model import Denied, LaunchPlan, Policy
from sandboxd.runner import limits, paths
from sandboxd.runner.isolation.levels import Host, Kept, resolve
from sandboxd.runner.isolation.sandbox import Bound
from sandboxd.runner.isolation.selftest import probe_for
from sandboxd.runner.protocol import InstanceSetup, RunRequest, SpawnerSetup
from sandboxd.values import frozen


@frozen
class Admitted:
    """The plan with the level that is kept, descriptors of what was checked, sha256 of each file, copies that are handed over.

    `workspace` is the instance's root, open as long as the seat is; the caller closes the others by `close`.
    """

    plan: LaunchPlan
    folder_fd: int
    digests: dict[str, str]
    workspace: Bound
    writable: tuple[Bound, ...] = ()
    handed: tuple[int, ...] = ()

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in (self.folder_fd, *(bound.fd for bound in self.writable), *self.handed):
            os.close(fd)


class Seat:
    """Decides for every instance. `LoadError` names every policy file that cannot be used.

    `before`: the seat that this one is to replace; its roots stay open, and are this one's too. What this host can keep
    is tried as far as the strongest level that can be asked for needs it. Forks: for a process with one thread.
    """

    def __init__(self, setup: SpawnerSetup, controllers: frozenset[str], before: Seat | None = None) -> None:
        self.setup = setup
        self._controllers = controllers
        opened = before.roots() if before else {}
        self._instances = {instance.id: _Instance(instance, opened.get(instance.id)) for instance in setup.instances}
        policies = [policy for instance in self._instances.values() for policy in instance.policies]
        asked = [setup.isolation, *(policy.isolation.level for policy in policies if policy.isolation.level)]
        self._strongest = max(asked, key=LEVELS.index)
        self.host: Host
        if before is not None and LEVELS.index(before._strongest) >= LEVELS.index(self._strongest):
            self.host = before.host
        else:
            self.host = probe_for(self._strongest, bubblewrap=setup.bubblewrap)

    def admit(self, request: RunRequest) -> Admitted | Denied:
        """Decide, then open the paths: everything that starting needs, or every reason against it."""
        instance = self._instances.get(request.instance)
        if instance is None:
            return Denied((Problem("instance", f"no instance `{request.instance}` is configured", "instance"),))
        subject = Subject(
            instance=request.instance,
            task_id=request.task_id,
            context_id=request.context_id,
            message_text=request.message_text,
            root_shown=instance.setup.shown,
            root_real=instance.root_real,
            programs=self.setup.programs,
            isolation=self.setup.isolation,
            mission_id=request.mission_id,
        )
        decision = decide(instance.policies, request.command, subject)
        if isinstance(decision, Denied):
            return decision
        kept = resolve(decision.plan.isolation, self.host)
        if isinstance(kept, Problem):
            return Denied((kept,))
        if kept.level != "none" and self._is_open_to(instance):
            why = "the instance's root, or what the config lets tasks read, holds files of the daemon's own, such as its state"
            return Denied((Problem("isolation", f"cannot keep `{kept.level}`: {why}", "isolation"),))
        root = instance.open_root()
        if isinstance(root, Problem):
            return Denied((root,))
        opened = paths.open_all(root, decision.plan.cwd, decision.plan.paths)
        if isinstance(opened, tuple):
            return Denied(opened)
        names = decision.plan.writable if kept.level != "none" else ()
        writable, missing, problems = paths.open_writable(root, names)
        bounds = tuple(Bound(fd, os.path.normpath(f"{instance.root_real}/{name}")) for name, fd in writable.items())
        said = [kept.note] if kept.note else []
        said += [f"the policy lets it write `{name}`, which does not exist, so it cannot" for name in missing]
        said += limits.notes(decision.plan.limits, self._controllers, kept.level)
        notes = (*decision.plan.isolation_notes, *said)
        plan = attrs.evolve(decision.plan, isolation=kept.level, isolation_notes=notes)
        admitted = Admitted(plan, opened.folder_fd, opened.digests, Bound(root, instance.root_real), bounds, opened.handed)
        if problems:
            admitted.close()
            return Denied(problems)
        return admitted

    def levels(self) -> dict[str, dict[str, str]]:
        """For each instance and adapter the level that its runs get, or why they get none."""
        return {name: {policy.adapter: self._level(policy) for policy in one.policies} for name, one in self._instances.items()}

    def _level(self, policy: Policy) -> str:
        kept = resolve(max(self.setup.isolation, policy.isolation.level or "none", key=LEVELS.index), self.host)
        return kept.level if isinstance(kept, Kept) else kept.reason

    def _is_open_to(self, instance: _Instance) -> bool:
        """Whether a run there could read what is the daemon's own."""
        seen = [Path(os.path.realpath(name)) for name in (instance.root_real, *self.setup.read)]
        return any(Path(os.path.realpath(name)).is_relative_to(folder) for name in self.setup.closed for folder in seen)

    def adapters(self) -> dict[str, list[list[object]]]:
        """For each instance the adapters that its policies allow, each with its modes."""
        return {
            name: [[policy.adapter, list(policy.modes)] for policy in instance.policies]
            for name, instance in self._instances.items()
        }

    def roots(self) -> dict[str, int]:
        """The root of each instance that could be opened."""
        return {name: instance.root_fd for name, instance in self._instances.items() if instance.root_fd is not None}


class _Instance:
    """One instance: its policies, and its root once it could be opened."""

    def __init__(self, setup: InstanceSetup, root_fd: int | None) -> None:
        self.setup = setup
        self.root_real = os.path.realpath(setup.root)
        self.policies = _load_all(setup.policies)
        self.root_fd = root_fd
        self.open_root()

    def open_root(self) -> int | Problem:
        """The root's descriptor, or why there is none."""
        if self.root_fd is None:
            try:
                self.root_fd = paths.open_root(self.setup.root)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                return Problem("instance", f"cannot open the root of instance `{self.setup.id}`: {why}", "root")
        return self.root_fd


def _load_all(files: tuple[str, ...]) -> tuple[Policy, ...]:
    policies: list[Policy] = []
    problems: list[Problem] = []
    for name in files:
        try:
            file = packs.read(Path(name))
            policies.append(load_policy(str(file.path), file.text, file.digest))
        except LoadError as error:
            if len(files) == 1:
                raise
            problems += [attrs.evolve(problem, field=f"{error.source}: {problem.field}") for problem in error.problems]
    problems += check_together(policies)
    if problems:
        raise LoadError(", ".join(files), problems)
    return tuple(policies)
