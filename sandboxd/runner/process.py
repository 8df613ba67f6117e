"""What can the daemon do with one run?

Read its output, type into its terminal, wait for its leader, and end all of it. The descriptors are the daemon's own; the
process is the spawner's child, so its exit status comes from there, while the pidfd tells at once, and without asking anybody,
whether it lives.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import trio

from sandboxd import logs
from sandboxd.policy.model import LaunchPlan
from sandboxd.runner import cgroup
from sandboxd.runner.protocol import Frame
from sandboxd.runner.tree import MARKER
from sandboxd.values import frozen

_log = logs.logger(__name__)


@frozen
class ExitStatus:
    """How the leader ended: by a code, by a signal (its name), or unknown because the spawner died and the run with it.

    `oom`: the signal was the kernel's, which ended the run because there was not enough memory for it. `full`: it was the
    spawner's, for the run had more temporary files than its policy allows.
    """

    code: int | None = None
    signal: str | None = None
    spawner_died: bool = False
    oom: bool = False
    full: bool = False


class Control(Protocol):
    """The spawner, as far as a process needs it."""

    async def ask(self, frame: Mapping[str, Any]) -> Frame | None:
        """The spawner's reply; None: it is dead, and everything that it had started was ended."""

    def end_soon(self, process: Process) -> None:
        """End the process's tree in a task that nobody waits for."""

    def strays(self, process: Process) -> Collection[int]:
        """The spawner's children that may be this process's, as far as they are not known to be another's."""


class Process:
    """One run that has exec'd. Owned by one task; `close` when done, and what is left of it is ended then.

    `folder`: its own cgroup, if it has one. `beside`: what was started for it besides its leader (bubblewrap).
    `terminal_fd` (a pty's master), or `stdout_fd` and `stderr_fd`: non-blocking, for `os.read` and `os.write`. `digests`:
    sha256 of the files that were checked, by hole. End of output on a terminal is EIO, and may come before the leader's exit
    (it closed its terminal) or long after (somebody else holds it).
    """

    def __init__(
        self,
        control: Control,
        *,
        run: int,
        pid: int,
        plan: LaunchPlan,
        digests: Mapping[str, str],
        fds: Sequence[int],
        folder: Path | None = None,
        beside: Collection[int] = (),
    ) -> None:
        self.plan = plan
        self.digests = dict(digests)
        self.pid = pid
        self.beside = frozenset(beside)
        self._cgroup = folder
        self.terminal_fd = fds[1] if plan.terminal else None
        self.stdout_fd = None if plan.terminal else fds[1]
        self.stderr_fd = None if plan.terminal else fds[2]
        self._fds = tuple(fds)
        self._pidfd = fds[0]
        self._control = control
        self._run = run
        self.on_exit: Callable[[], None] = lambda: None  # called once the leader's end is known; returns at once
        self._status: ExitStatus | None = None
        self._ended = trio.Event()
        self._left: tuple[int, ...] | None = None
        for fd in fds[1:]:
            os.set_blocking(fd, False)

    def __repr__(self) -> str:
        state = "alive" if self._status is None else self._status
        return f"<Process pid {self.pid} of {self.plan.adapter} {state}>"

    @property
    def is_tree_gone(self) -> bool:
        """Whether `stop` or `end_tree` has found that nothing of the run is left."""
        return self._left == ()

    @property
    def has_exited(self) -> bool:
        """Whether `wait` would return at once."""
        return self._status is not None

    def is_alive(self) -> bool:
        """Whether the leader has not exited, right now: no checkpoint, no waiting."""
        if self._status is not None or not self._fds:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def strays(self) -> Collection[int]:
        """Processes among which those of the run are that have lost their parents, right now; for its witness.

        With a cgroup they are read there, exactly, and others' cannot slow this down. Without one they are the spawner's
        children but for those that were started as, or for, other runs.
        """
        return self._control.strays(self) if self._cgroup is None else cgroup.pids(self._cgroup)

    async def wait(self) -> ExitStatus:
        """Until the leader has exited. Output may still be unread, and others of its tree may live."""
        await self._ended.wait()
        assert self._status is not None  # set before the event is
        return self._status

    async def stop(self, *, grace_s: float) -> tuple[int, ...]:
        """The stop ladder: INT to the whole tree, TERM after the grace, KILL after as much again.

        The ladder ends with the leader: what it leaves behind is killed at once. Returns the pids that could not be ended
        within two seconds (they hang in the kernel), normally none. Cancelled in between, it kills before it goes.
        """
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                if grace_s <= 0 or not self.is_alive():
                    break
                await self._control.ask({"do": "signal", "run": self._run, "signal": number.name})
                with trio.move_on_after(grace_s):
                    await self.wait()
        finally:
            left = await self.end_tree()
        return left

    async def end_tree(self) -> tuple[int, ...]:
        """SIGKILL to everything that is left of the run, the leader too; returns the pids that could not be ended.

        Shielded, and bounded: the spawner answers within two seconds or is itself ended, with all that it started.
        """
        if self._left == ():
            return ()
        with trio.CancelScope(shield=True):
            reply = await self._control.ask({"do": "end", "run": self._run})
        self._left = tuple(reply["left"]) if reply is not None else ()
        if self._left:
            _log.warning("Cannot end all of a run", task=self.plan.env.get(MARKER), left=self._left)
        return self._left

    def close(self) -> None:
        """Close the descriptors, and have the tree ended if that has not happened. Safe to call twice."""
        if self._left != ():
            self._control.end_soon(self)
        for fd in self._fds:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)
        self._fds = ()

    def exited(self, status: ExitStatus) -> None:
        """The spawner's word on the leader, or on its own death. Only the client calls this."""
        if self._status is None:
            self._status = status
            self._ended.set()
            self.on_exit()
