"""Which processes belong to a run, and how are they ended?

The spawner is a subreaper, so everything that a run starts stays a descendant of the spawner, whatever session it makes. Below
a living leader that says it all. A process whose parents are gone becomes the spawner's own child, and is given to a run by
what it cannot take off (its session, or that it was seen below the leader earlier), and failing that by the task id in its
environment, which it can. One that cannot be given to any run is ended with the last run that may have started it.

What is promised without a cgroup: everything that a run left behind is found and ended unless it forks faster than it is
looked for, for as long as the sweep may last; a process that hides whose it is may outlive its run until the others that were
there with it have ended; nothing outlives the spawner for longer than its last sweep. With a cgroup (`cgroup`) one write ends
everything in it, and this sweep finds only what moved out of it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from sandboxd.values import frozen

MARKER: Final = "AIWG_A2A_TASK_ID"
_ENVIRON_MAX_BYTES: Final = 8 * 1024 * 1024  # more than exec carries
_REMEMBER_MAX: Final = 256  # some 10 ms; the kill waits for it
_WALK_MAX: Final = 4096  # what forks faster than it is looked at would be followed for ever
_QUICK_PASSES: Final = 200  # 20 to 50 µs each: what re-forks as it dies is outrun, and other runs wait 10 ms at most


@frozen
class Proc:
    """One line of /proc: `started` (clock ticks since boot) tells a process from a later one with the same pid."""

    pid: int
    parent: int
    session: int
    started: int
    is_zombie: bool

    @property
    def key(self) -> tuple[int, int]:
        """What no other process ever has."""
        return self.pid, self.started


@attrs.define(eq=False)
class Tree:
    """A run's processes, as far as they are known. Changed by the spawner's one thread only.

    `leader_alive`: not reaped yet, so no other process can have its pid. `beside`: the spawner's other children that were
    started for it, not reaped yet either.
    """

    task_id: str
    leader: int
    started: int
    leader_alive: bool = True
    sessions: set[int] = attrs.field(factory=set)
    seen: set[tuple[int, int]] = attrs.field(factory=set)
    beside: set[int] = attrs.field(factory=set)

    @classmethod
    def of(cls, task_id: str, leader: int) -> Tree:
        """The tree of a leader that was just started, and not reaped."""
        found = look(leader)
        return cls(task_id, leader, found.started if found else 0, sessions={leader})

    def remember(self) -> None:
        """Note who is below the living leader, so that it is known again when its parents are gone."""
        self.seen = {proc.key for proc in itertools.islice(walk(self.leader), _REMEMBER_MAX)}


def read_proc(path: str, most: int = 65536) -> bytes:
    """A file of /proc in one read; `OSError`. Half of what an open file object takes, and a witness reads six for a look."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, most)
    finally:
        os.close(fd)


def look(pid: int) -> Proc | None:
    """That process, or None when there is none."""
    try:
        text = read_proc(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything; proc_pid_stat(5) counts from 3
    return Proc(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0] in b"ZX")


def children_of(pid: int, threads: Collection[int] | None = None) -> list[int]:
    """Its children, whichever of its threads started them; of the given threads only, if they are given.

    Of another process the kernel may leave one out while some of them are being reaped (proc_pid_children(5)).
    """
    found: list[int] = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task") if threads is None else threads:
            with open(f"/proc/{pid}/task/{tid}/children", "rb", buffering=0) as file:
                found += map(int, file.readall().split())
    except OSError:  # it ends under the look, or the kernel lists nobody's (CONFIG_PROC_CHILDREN)
        if not Path("/proc/thread-self/children").exists():
            return [proc.pid for proc in look_at_all().values() if proc.parent == pid]
    return found


def walk(root: int) -> Iterator[Proc]:
    """That process and its descendants as they are found, the nearest first, zombies too; so many at most."""
    row = [root]
    for pid in itertools.islice(row, _WALK_MAX):  # it grows as this goes
        if (found := look(pid)) is not None:
            yield found
            row += children_of(pid)


def look_at_all() -> dict[int, Proc]:
    """Every process that this user may see."""
    # A name at a time, not Path.iterdir: this is read again and again while a tree is being ended.
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {proc.pid: proc for proc in found if proc is not None}


def descendants(procs: Mapping[int, Proc], of: int) -> Iterator[tuple[Proc, Proc]]:
    """Each descendant, with the child of `of` that it descends from (a child with itself)."""
    below: dict[int, list[Proc]] = {}
    for proc in procs.values():
        below.setdefault(proc.parent, []).append(proc)
    for child in below.get(of, ()):
        pending = [child]
        while pending:
            proc = pending.pop()
            yield proc, child
            pending += below.get(proc.pid, ())


def sort_out(trees: Collection[Tree], procs: Mapping[int, Proc], spawner: int) -> dict[Proc, Tree | None]:
    """Every living descendant of the spawner with the run that it belongs to (None: nobody knows).

    Remembers in each tree what was found, so that it is known again when its parents are gone.
    """
    leaders = {tree.leader: tree for tree in trees if tree.leader_alive}
    owners: dict[int, Tree | None] = {}
    found: dict[Proc, Tree | None] = {}
    for proc, child in descendants(procs, spawner):
        if child.pid not in owners:
            owners[child.pid] = leaders.get(child.pid) or owner(trees, child)
        if not proc.is_zombie:
            found[proc] = owners[child.pid]
    for tree in trees:
        tree.seen = set()
        # Only what is in use: the number of a session that is over can become another run's.
        tree.sessions = {tree.leader} if tree.leader_alive else set()
    for proc, whose in found.items():
        if whose is not None:
            whose.seen.add(proc.key)
            whose.sessions.add(proc.session)
    return found


def owner(trees: Collection[Tree], orphan: Proc) -> Tree | None:
    """The run that a process without parents came from."""
    for tree in trees:  # a living leader's own session first: an older one of that number is over
        if tree.leader_alive and orphan.session == tree.leader:
            return tree
    for tree in trees:
        if orphan.key in tree.seen or orphan.session in tree.sessions:
            return tree
    try:
        with open(f"/proc/{orphan.pid}/environ", "rb") as file:
            variables = file.read(_ENVIRON_MAX_BYTES).split(b"\0")
    except OSError:  # not dumpable, or gone
        variables = []
    return next((tree for tree in trees if f"{MARKER}={tree.task_id}".encode() in variables), None)


def may_end(orphan: Proc, whose: Tree | None, ending: Collection[Tree], trees: Collection[Tree]) -> bool:
    """Whether it goes with the runs that are ending: it is theirs, or no other run is left that may have started it."""
    if whose is not None:
        return whose in ending
    return all(tree in ending or tree.started > orphan.started for tree in trees)


def members(trees: Collection[Tree], of: Tree) -> Iterator[Proc]:
    """The living processes of one run, without a look at all of /proc. The leader first, then what it left."""
    roots = [of.leader] if of.leader_alive else []
    roots += [orphan.pid for orphan, _ in _orphans(trees, [of], set())]
    return (proc for root in roots for proc in walk(root) if not proc.is_zombie)


def all_members(trees: Collection[Tree], ending: Collection[Tree], spawner: int) -> list[Proc]:
    """The living processes that go with the runs that are ending, by one look at all of /proc."""
    found = sort_out(trees, look_at_all(), spawner)
    return [proc for proc, whose in found.items() if may_end(proc, whose, ending, trees)]


def sweep(trees: Collection[Tree], ending: Collection[Tree], spawner: int) -> None:
    """SIGKILL to everything of the runs that are ending, as far as it is seen, and to what it forks meanwhile.

    One look at all of /proc, however many runs they are, while those who know whose a process is are there still.
    """
    for proc in all_members(trees, ending, spawner):
        send(proc, signal.SIGKILL)
    chase(trees, ending)


def chase(trees: Collection[Tree], ending: Collection[Tree]) -> list[tuple[Proc, Tree | None]]:
    """SIGKILL to what the runs that are ending have orphaned; those that live still after it, each with its run.

    Quick looks at the spawner's own children: where a process re-forks as fast as it is killed, each generation lands there.
    Once a leader is reaped and nothing is found here, nothing of its run is left: every descendant of it is below an orphan.
    """
    killed: list[tuple[Proc, Tree | None]] = []
    known: set[int] = set()  # nothing is reaped meanwhile, so a pid stays whose it is
    for _ in range(_QUICK_PASSES):
        # Before the look: who is a zombie by now has handed its children to this process, so they are seen then.
        living = _living(killed)
        known_before = len(known)
        for orphan, whose in _orphans(trees, ending, known):
            os.kill(orphan.pid, signal.SIGKILL)  # our own child, not reaped yet: the pid is still its own
            killed.append((orphan, whose))
        if len(known) == known_before:  # even one that was found dead may have had children: the next look tells
            return living
    return _living(killed)


def _living(killed: Collection[tuple[Proc, Tree | None]]) -> list[tuple[Proc, Tree | None]]:
    return [(proc, whose) for proc, whose in killed if (now := look(proc.pid)) is not None and not now.is_zombie]


def _orphans(trees: Collection[Tree], ending: Collection[Tree], known: set[int]) -> list[tuple[Proc, Tree | None]]:
    """Living children of this process that go with the runs that are ending, leaders apart; who was looked at is `known`."""
    known |= {tree.leader for tree in trees if tree.leader_alive}
    known |= {pid for tree in trees if tree not in ending for pid in tree.beside}
    found: list[tuple[Proc, Tree | None]] = []
    for pid in children_of(os.getpid()):
        if pid in known:
            continue
        known.add(pid)
        orphan = look(pid)
        if orphan is None or orphan.is_zombie:
            continue
        whose = owner(trees, orphan)
        if may_end(orphan, whose, ending, trees):
            found.append((orphan, whose))
    return found


def send(proc: Proc, number: int) -> None:
    """Send a signal to exactly that process, or to nobody when its pid has passed on."""
    try:
        pidfd = os.pidfd_open(proc.pid)
    except OSError:
        return
    try:
        now = look(proc.pid)
        if now is not None and now.started == proc.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)
