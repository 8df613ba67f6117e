"""How are runs ended, one of them or two hundred at once?

With a cgroup, one write kills all of a run, and its removal proves that nothing is left: no other process is looked at. At
level `none` a process may have left its cgroup; it is found among the spawner's own children, where everything lands whose
parents are gone. Without a cgroup one look at all of /proc serves every run that is being ended (`tree.sweep`), and takes half
of the time at most: the spawner has others to serve.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from sandboxd.runner import cgroup, exits, tree
from sandboxd.runner.confiner import Confined
from sandboxd.runner.tree import Tree

END_S: Final = 2.0  # cgroup.kill takes 1 to 10 ms, a sweep 25 to 40 ms; what is left after this hangs in the kernel
TICK_S: Final = 0.005  # while something is being ended
_KILLED_S: Final = 0.2  # from the write to the leader's death, at most; it takes 1 to 10 ms
LOOK_S: Final = 1.0  # how often a run without a cgroup is looked at, so that its orphans are known again


@attrs.define(eq=False)
class Run:
    """What the spawner knows of one run. Changed by its one thread only.

    `asked_by`: requests that wait for its end, which is given up at `end_by`. `latest`: when it is ended without anybody's
    asking. `is_full`: it passed the size of its temporary folder.
    `is_moved`: somebody took it out of its cgroup. `wants_sweep`: it takes a look at all of /proc to end it.
    """

    number: int
    tree: Tree
    cgroup: Path | None
    confined: Confined
    asked_by: list[int] = attrs.field(factory=list)
    end_by: float = 0.0
    latest: float = float("inf")
    is_full: bool = False
    is_moved: bool = False
    wants_sweep: bool = attrs.field(default=attrs.Factory(lambda run: run.cgroup is None, takes_self=True))

    def fill_up(self) -> None:
        """It has more temporary files than it may have: it is ended at the next turn."""
        self.is_full = True
        self.latest = 0.0

    @property
    def can_stray(self) -> bool:
        """Whether something of it can be outside of a cgroup of its own: a task at `none` may leave it."""
        return self.cgroup is None or self.confined.confinement is None or self.is_moved


class Ending:
    """Looks after `runs`, and takes out of them what is over. `tell`: how a frame gets to the daemon."""

    def __init__(
        self, runs: dict[int, Run], tell: Callable[[Mapping[str, Any]], None], release: Callable[[Confined], None]
    ) -> None:
        self._runs = runs
        self._tell = tell
        self._release = release
        self._pid = os.getpid()
        self._look_at = 0.0
        self._sweep_at = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for an end."""
        return any(run.asked_by for run in self._runs.values())

    def timeout_s(self) -> float | None:
        """How long nothing happens here by itself while nobody waits; None: for ever."""
        waits = [max(0.0, run.latest - time.monotonic()) for run in self._runs.values()]
        waits += [LOOK_S for run in self._runs.values() if run.cgroup is None]
        return min(waits, default=None)

    def members(self, run: Run) -> list[tree.Proc]:
        """The living processes of that run."""
        found = {proc.pid: proc for proc in tree.members(self._trees(), run.tree)}
        inside = cgroup.pids(run.cgroup) if run.cgroup is not None else set()
        found |= {pid: proc for pid in inside - found.keys() if (proc := tree.look(pid)) is not None and not proc.is_zombie}
        return list(found.values())

    def reap(self) -> None:
        """Take in who has ended, and tell of leaders."""
        leaders = {run.tree.leader: run for run in self._runs.values() if run.tree.leader_alive}
        for pid, status in exits.reaped():
            run = leaders.get(pid)
            if run is None:  # an orphan, or bubblewrap
                for each in self._trees():
                    each.beside.discard(pid)
                continue
            run.tree.leader_alive = False
            self._tell({"exited": run.number, **exits.ending_of(status, run.cgroup, is_full=run.is_full)})

    def look(self) -> None:
        """Remember who is below whom, for the time when parents are gone."""
        now = time.monotonic()
        if now >= self._look_at and any(run.cgroup is None for run in self._runs.values()):
            self._look_at = now + LOOK_S
            tree.sort_out(self._trees(), tree.look_at_all(), self._pid)

    def end_some(self) -> None:
        """One pass over the runs that are being ended; answers for those that are gone, or cannot be."""
        now = time.monotonic()
        ending = [run for run in self._runs.values() if run.asked_by or run.latest <= now]
        if not ending:
            return
        for run in ending:
            run.latest = max(run.latest, now + LOOK_S)  # one that hangs in the kernel is tried again, and not all the time
            if run.cgroup is not None:
                # One write kills all that is in it: whose leader lives all the same was moved, by an operator or a manager.
                run.is_moved = run.is_moved or (
                    run.tree.leader_alive and run.asked_by != [] and now > run.end_by - END_S + _KILLED_S
                )
                if run.can_stray and run.tree.leader_alive and not run.tree.seen:  # what left the cgroup is below it still
                    run.tree.remember()
                cgroup.kill(run.cgroup)
        self._sweep(ending)
        self.reap()
        alive = self._chase(ending)
        for run in ending:
            is_gone = run not in alive and not run.tree.leader_alive and (run.cgroup is None or cgroup.remove(run.cgroup))
            if not is_gone and (time.monotonic() < run.end_by or not run.asked_by):
                continue
            left = [] if is_gone else sorted(proc.pid for proc in self.members(run))
            for request in run.asked_by:
                self._tell({"re": request, "left": left})
            run.asked_by.clear()
            if is_gone:
                del self._runs[run.number]
                self._release(run.confined)

    def end_all(self, base: Path | None, deadline: float) -> None:
        """SIGKILL to all that is left below this process, until nothing is or nothing more can be done."""
        trees = self._trees()
        while time.monotonic() < deadline:
            if base is not None:
                cgroup.kill(base)
            tree.sweep(trees, trees, self._pid)
            self.reap()
            # What was forked behind the first look, by one that died before it was looked at, is an orphan by the second.
            left = tree.all_members(trees, trees, self._pid) or tree.chase(trees, trees)
            if not left and (base is None or cgroup.remove(base)):
                break
            time.sleep(TICK_S)

    def _trees(self) -> list[Tree]:
        return [run.tree for run in self._runs.values()]

    def _sweep(self, ending: Collection[Run]) -> None:
        """Kill those that no cgroup ends, and what outran the chase: all of them by one look."""
        wanted = [run for run in ending if run.wants_sweep]
        began = time.monotonic()
        if not wanted or began < self._sweep_at:
            return
        tree.sweep(self._trees(), [run.tree for run in wanted], self._pid)
        for run in wanted:
            run.wants_sweep = False
        ended = time.monotonic()
        self._sweep_at = ended + (ended - began)

    def _chase(self, ending: Collection[Run]) -> set[Run]:
        """Kill what has strayed; the runs of which something may live still."""
        able = [run for run in ending if run.can_stray]
        killed = [run for run in able if not run.wants_sweep]
        for run in killed:
            if run.tree.leader_alive:  # it may have left its cgroup, or hang in the kernel
                os.kill(run.tree.leader, signal.SIGKILL)
        found = tree.chase(self._trees(), [run.tree for run in killed if not run.tree.leader_alive]) if killed else []
        for run in killed:
            run.wants_sweep = any(whose is run.tree or whose is None for _, whose in found)
        return {run for run in able if run.wants_sweep}
