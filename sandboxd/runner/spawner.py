"""Which process starts the runs, and ends them?

A small process with one thread, a fresh interpreter started with the daemon. It takes requests over one socket, decides
(`seat`), starts (`launch`), reaps, and ends (`tree`, `cgroup`). It is the only one that starts a task's command, so whoever
took over the HTTP side could start only what the operator's policies allow, at the level and for as long as they say, and no
more of it at a time than the config says: the setup is said once, before there is a door, and what does not fit the protocol
ends every run.

Crash-only: when the daemon is gone (end of the socket, or its pidfd) it ends every run and exits; when it dies itself, leaders
die with it (PR_SET_PDEATHSIG) and the daemon ends the rest (`burial`). If both are killed at the same moment, what is no leader
and in no cgroup that somebody else kills (systemd does, with the unit) can survive.

Signals do not end it: a terminal's Ctrl-C and `systemctl stop` are for the daemon, which ends it by closing the socket.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import attrs

from sandboxd.errors import LoadError
from sandboxd.policy.model import Denied
from sandboxd.runner import cgroup, handover, limits, linux, tree
from sandboxd.runner.confiner import Confined, Confiner
from sandboxd.runner.ending import END_S, TICK_S, Ending, Run
from sandboxd.runner.isolation.sandbox import Unusable
from sandboxd.runner.launch import Launched, launch
from sandboxd.runner.outbox import Outbox
from sandboxd.runner.protocol import (
    Frame,
    FrameReader,
    ProtocolError,
    SpawnerSetup,
    SpawnFailed,
    problems_to_json,
    request_from_json,
    to_json,
)
from sandboxd.runner.seat import Admitted, Seat
from sandboxd.runner.setup import read_setup, renewed
from sandboxd.runner.tree import Tree

_LAST_END_S: Final = 3.0
_READ_BYTES: Final = 65_536
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2)


class _Refused(Exception):
    """The spawner cannot work here; the daemon is told why."""


def main(socket_fd: int, daemon_pid: int) -> None:
    """Serve the daemon at the other end of the socket until it is gone."""
    linux.keep_standard_descriptors()
    limits.take_all_files()
    handover.reserve()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    sock = socket.socket(fileno=socket_fd)
    sock.set_inheritable(False)
    reader = FrameReader()
    try:
        setup = read_setup(sock, reader)
        if setup is None:
            return
        spawner = _start(setup, sock, reader, daemon_pid)
    except (_Refused, LoadError) as error:
        outbox = Outbox(sock)
        outbox.put({"refused": _told(error)})
        outbox.flush()
        return
    try:
        spawner.serve()
    except ProtocolError as error:
        sys.stderr.write(f"error: the spawner ends, and every run with it: {error}\n")
        sys.exit(1)
    finally:
        spawner.end_everything()


def _start(wanted: SpawnerSetup, sock: socket.socket, reader: FrameReader, daemon_pid: int) -> _Spawner:
    if why := linux.why_no_openat2():
        raise _Refused(why)
    linux.keep_capabilities_from_children()  # what a unit gives the daemon, to bind a port perhaps, is not for its runs
    linux.become_subreaper()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # a run of the same user may not look into this process
    try:
        daemon = os.pidfd_open(daemon_pid)
    except OSError as error:
        raise _Refused("the daemon is gone") from error
    if os.getppid() != daemon_pid:
        raise _Refused("the daemon is gone")
    swept = cgroup.sweep(wanted.cgroup)
    base = cgroup.make_base(wanted.cgroup)
    controllers = frozenset[str]() if isinstance(base, cgroup.NoCgroup) else cgroup.use_controllers(base)
    try:
        seat = Seat(wanted, controllers)
    except LoadError:
        if isinstance(base, Path):
            cgroup.remove(base)
        raise
    return _Spawner(seat, sock=sock, reader=reader, daemon=daemon, base=base, controllers=controllers, swept=swept)


class _Spawner:
    """The loop: everything that changes here is changed by its one thread."""

    def __init__(
        self,
        seat: Seat,
        *,
        sock: socket.socket,
        reader: FrameReader,
        daemon: int,
        base: Path | cgroup.NoCgroup,
        controllers: frozenset[str],
        swept: int,
    ) -> None:
        self._seat = seat
        self._confiner = Confiner(seat.setup)
        self._prepared: Seat | None = None
        self._sock = sock
        self._reader = reader
        self._daemon = daemon
        self._base = base if isinstance(base, Path) else None
        self._controllers = controllers
        self._outbox = Outbox(sock)
        self._runs: dict[int, Run] = {}
        self._ending = Ending(self._runs, self._outbox.put, self._confiner.release)
        self._end_at = 0.0
        self._next_number = 1
        why = None if isinstance(base, Path) else base.why
        ready = {"ready": True, "cgroup": str(self._base or ""), "no_cgroup": why, "swept": swept}
        self._outbox.put({**ready, "adapters": self._seat.adapters(), "levels": self._seat.levels()})

    def serve(self) -> None:
        """Until the daemon is gone."""
        self._sock.setblocking(False)
        wake, self._woken = socket.socketpair()
        wake.setblocking(False)
        self._woken.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # without a handler the wake-up does not happen
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()  # a fork copies fewer pages
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self._daemon, select.POLLIN)
        is_daemon_alive = True
        while is_daemon_alive:
            frame = None if self._outbox.is_full else self._reader.next_frame()
            wants_more = frame is None and not self._outbox.is_full
            mask = (select.POLLIN if wants_more else 0) | (0 if self._outbox.is_empty else select.POLLOUT)
            poll.register(self._sock, mask)
            events = dict(poll.poll(0 if frame else self._timeout_ms()))
            if wake.fileno() in events:
                with contextlib.suppress(BlockingIOError):
                    wake.recv(4096)
            self._ending.reap()
            if frame is not None:
                self._answer(frame[0])
            elif events.get(self._sock.fileno(), 0) & (select.POLLIN | select.POLLHUP | select.POLLERR):
                is_daemon_alive = self._receive()
            self._ending.look()
            if frame is None or time.monotonic() >= self._end_at:  # of many requests to end a run, all are heard first
                self._ending.end_some()
                self._end_at = time.monotonic() + TICK_S
            self._confiner.do_some()
            is_daemon_alive = is_daemon_alive and self._daemon not in events and self._flush()

    def end_everything(self) -> None:
        """SIGKILL to all that is left below this process, until nothing is or nothing more can be done."""
        signal.set_wakeup_fd(-1)
        for run in self._runs.values():
            self._confiner.release(run.confined)
        deadline = time.monotonic() + _LAST_END_S
        self._ending.end_all(self._base, deadline)
        self._confiner.close(deadline)

    def _receive(self) -> bool:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._reader.feed(data)
        return bool(data)

    def _flush(self) -> bool:
        try:
            self._outbox.flush()
        except OSError:
            return False
        return True

    def _timeout_ms(self) -> int | None:
        if not self._outbox.is_empty or self._ending.is_asked:
            return int(TICK_S * 1000)
        waits = [wait_s for wait_s in (self._ending.timeout_s(), self._confiner.timeout_s()) if wait_s is not None]
        return math.ceil(min(waits) * 1000) if waits else None

    def _answer(self, frame: Frame) -> None:
        try:
            self._do(frame)
        except (KeyError, TypeError, ValueError) as error:  # no field, or no such one: a daemon of this version sends neither
            raise ProtocolError(f"cannot read a request: {error!r}") from error

    def _do(self, frame: Frame) -> None:
        match frame["do"]:
            case "start" | "preview":
                self._admit(frame)
            case "signal":
                run = self._runs.get(frame["run"])
                for proc in self._ending.members(run) if run else ():
                    tree.send(proc, signal.Signals[frame["signal"]])
                    tree.send(proc, signal.SIGCONT)  # what is stopped hears nothing else
                self._outbox.put({"re": frame["id"]})
            case "end":
                run = self._runs.get(frame["run"])
                if run is None:
                    self._outbox.put({"re": frame["id"], "left": []})
                    return
                run.asked_by.append(frame["id"])
                run.end_by = time.monotonic() + END_S
            case "reload":
                self._outbox.put({"re": frame["id"], **self._prepare(frame["digest"])})
            case "adopt":
                if frame["is_wanted"] and self._prepared is not None:
                    self._seat = self._prepared
                self._prepared = None
                self._outbox.put({"re": frame["id"], "levels": self._seat.levels()})
            case other:
                raise ProtocolError(f"cannot do `{other}`: unknown")

    def _prepare(self, digest: str) -> Frame:
        """Read the operator's files anew; they count from `adopt` on."""
        self._prepared = None
        try:
            self._prepared = Seat(renewed(self._seat.setup, digest), self._controllers, self._seat)
        except LoadError as error:
            return {"unusable": _told(error)}
        return {"adapters": self._prepared.adapters()}

    def _admit(self, frame: Frame) -> None:
        reply: dict[str, Any] = {"re": frame["id"]}
        if frame["do"] == "start" and len(self._runs) >= self._seat.setup.max_runs:
            why = f"cannot start anything: {len(self._runs)} runs are there, which is this host's limit"
            self._outbox.put({**reply, "failed": ["start-failed", why]})
            return
        try:
            admitted = self._seat.admit(request_from_json(frame["request"]))
        except Exception as error:  # one request that trips a bug must not end everybody's runs
            self._outbox.put({**reply, "failed": ["internal", f"cannot decide: {error!r}"]})
            return
        if isinstance(admitted, Denied):
            self._outbox.put({**reply, "denied": problems_to_json(admitted.reasons)})
            return
        reply |= {"plan": to_json(admitted.plan), "digests": admitted.digests}
        try:
            if frame["do"] == "preview":
                self._outbox.put(reply)
                return
            started = self._launch(admitted, frame["request"]["task_id"])
        finally:
            admitted.close()
        if isinstance(started, SpawnFailed):
            self._outbox.put({"re": frame["id"], "failed": [started.reason, started.message]})
            return
        run, launched = started
        where = {"cgroup": str(run.cgroup or ""), "beside": sorted(run.confined.sessions)}
        self._outbox.put({**reply, "run": run.number, "pid": launched.pid, **where}, launched.fds)

    def _launch(self, admitted: Admitted, task_id: str) -> tuple[Run, Launched] | SpawnFailed:
        plan, on, level = admitted.plan, self._controllers, admitted.plan.isolation
        path: Path | None = None
        folder: int | None = None
        confined = Confined()
        try:
            if self._base is not None:
                path = cgroup.make_run(self._base, task_id, limits.cgroup_files(plan.limits, on, level))
                folder = cgroup.open_folder(path)
            confined = self._confiner.prepare(admitted, self._seat.host, cgroup_fd=folder, marker=f"{tree.MARKER}={task_id}")
            started = launch(
                attrs.evolve(plan, env={**confined.env, **plan.env}),
                rlimits=limits.rlimits(plan.limits, on, level),
                folder_fd=admitted.folder_fd,
                cgroup_fd=folder,
                handed=admitted.handed,
                confinement=confined.confinement,
            )
        except (OSError, Unusable) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else f"cannot make its sandbox: {error}"
            started = SpawnFailed("start-failed", f"cannot start `{plan.program}`: {why}")
        finally:
            if folder is not None:
                os.close(folder)
            self._confiner.started(confined)
        if isinstance(started, SpawnFailed):
            self._confiner.release(confined, is_unused=True)
            if path is not None:
                cgroup.remove(path)
            return started
        limits.prefer_to_daemon(started.pid)
        run = Run(self._next_number, Tree.of(task_id, started.pid), path, confined)
        run.latest = time.monotonic() + plan.limits.timeout_s + self._seat.setup.late_s
        run.tree.sessions |= confined.sessions
        run.tree.beside |= confined.sessions
        self._next_number += 1
        self._runs[run.number] = run
        self._confiner.measure(
            confined,
            plan.tmp_bytes,
            members=lambda: [proc.pid for proc in self._ending.members(run)],
            passed=run.fill_up,
        )
        return run, started


def _told(error: _Refused | LoadError) -> Frame:
    if isinstance(error, LoadError):
        return {"source": error.source, "problems": problems_to_json(error.problems)}
    return {"why": str(error)}
