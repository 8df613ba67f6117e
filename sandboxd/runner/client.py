"""How does the daemon ask its spawner?

Requests go through a bounded queue, replies are matched by number. Whatever the spawner started belongs to this client until
the caller has it in hand: a caller that was cancelled while it waited leaves no run behind. A spawner from which nothing at all
is heard for ten seconds, while it owes a reply, is killed, which ends every run; it is never restarted (crash-only: the daemon
ends, and systemd starts both anew). One that is slow, because it has a lot to do or the host has, is waited for.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from sandboxd.errors import LoadError, Problem
from sandboxd.policy.model import Allowed, Denied
from sandboxd.runner import birth, burial
from sandboxd.runner.briefing import START_S, brief
from sandboxd.runner.process import ExitStatus, Process
from sandboxd.runner.protocol import (
    MAX_FDS,
    Frame,
    FrameReader,
    ProtocolError,
    RunRequest,
    SpawnerSetup,
    SpawnFailed,
    encode,
    plan_from_json,
    problems_from_json,
    to_json,
)
from sandboxd.runner.tree import children_of

REPLY_S: Final = 10.0  # a start takes 3 ms, an end 2 s at most; one that hangs in exec (a dead network share) hangs all others
_WATCH_S: Final = 1.0
_CLOSE_S: Final = 5.0  # the spawner gives itself 3 s
_WAITING_MAX: Final = 256
_READ_BYTES: Final = 65_536


@asynccontextmanager
async def open_spawner(setup: SpawnerSetup | None, newborn: birth.Newborn | None = None) -> AsyncIterator[Spawner]:
    """A spawner for as long as the block runs; at its end every run is over. `newborn`: its process, if it was begun before.

    `setup` None: it was told (`brief`). Raises `LoadError` when a policy cannot be used, `SpawnerUnavailable` when the host
    cannot do what is needed. The death of the spawner does not end the block: `wait_died` tells.
    """
    failure: BaseException | None = None
    async with AsyncExitStack() as stack:
        if newborn is None:
            newborn = await stack.enter_async_context(birth.newborn())
        if setup is not None:
            await brief(newborn, setup)
        spawner = await _greet(newborn)
        async with trio.open_nursery() as nursery:  # this spawner's own: its traffic, and runs that nobody waits for any more
            spawner.attach(nursery)
            try:
                yield spawner
            except BaseException as error:  # raised again below, so that it does not come out in an exception group
                failure = error
            with trio.CancelScope(shield=True):
                await spawner.close()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@attrs.define(eq=False)
class _Asked:
    """A request that waits for its reply. `given_up`: the caller was cancelled."""

    answered: trio.Event = attrs.field(factory=trio.Event)
    result: Any = None
    given_up: bool = False


class Spawner:
    """The daemon's side of one spawner process. Made by `open_spawner`; any task may call its methods."""

    def __init__(self, born: birth.Newborn, *, reader: FrameReader, ready: Frame) -> None:
        self.pid = born.process.pid
        self.no_cgroup: str | None = ready["no_cgroup"]  # why runs have no cgroup of their own, which `/readyz` tells
        self.cgroup = Path(ready["cgroup"]) if ready["cgroup"] else None
        self._adapters = _adapters(ready)
        self.swept: int = ready["swept"]  # cgroups of daemons and spawners that were killed together, ended at this start
        self.levels: Mapping[str, Mapping[str, str]] = ready[
            "levels"
        ]  # by instance and adapter: the level kept, or why none is
        self.is_closing = False  # its death is what was asked for
        self._process = born.process
        self._sock = born.sock
        self._reader = reader
        self._spared = born.spared
        self._outgoing, self._to_send = trio.open_memory_channel[bytes](64)
        self._slots = trio.Semaphore(_WAITING_MAX)
        self._asked: dict[int, _Asked] = {}
        self._next_number = 1
        self._heard = 0  # bytes: whether there was any word since the last look
        self._processes: dict[int, Process] = {}
        self._apart: frozenset[int] | None = None  # their leaders, and what is beside them; None: not put together yet
        self._nursery: trio.Nursery | None = None
        self._is_dead = False
        self._died = trio.Event()

    @property
    def is_alive(self) -> bool:
        """Whether runs can be started."""
        return not self._is_dead

    async def wait_died(self) -> None:
        """Until the spawner is dead and everything that it had started has been ended."""
        await self._died.wait()

    async def adapters(self) -> Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]:
        """For each instance the adapters that its policies allow, each with its modes."""
        return self._adapters

    async def start(self, request: RunRequest) -> Process | Denied | SpawnFailed:
        """Decide, open the paths and start: the run, or why there is none. A cancelled caller leaves none."""
        result = await self._request("start", request)
        assert not isinstance(result, Allowed)  # the spawner starts what it allows, or says why it failed
        return result

    async def preview(self, request: RunRequest) -> Allowed | Denied | SpawnFailed:
        """Decide and open the paths, start nothing. `SpawnFailed` only when there is no spawner to ask."""
        result = await self._request("preview", request)
        assert not isinstance(result, Process)
        return result

    async def prepare_reload(self, digest: str) -> Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]:
        """Have it read the operator's files anew; the adapters that they allow. They count from `adopt` on; `LoadError`.

        `digest`: of the config that the caller has read.
        """
        reply: Frame | None = await self._call({"do": "reload", "digest": digest})
        if reply is None:
            raise LoadError("", [Problem("", "the spawner is dead")])
        if "unusable" in reply:
            raise LoadError(reply["unusable"]["source"], problems_from_json(reply["unusable"]["problems"]))
        return _adapters(reply)

    async def adopt(self, *, is_wanted: bool) -> None:
        """Have what was prepared count for every start from now on, or be forgotten."""
        if reply := await self._call({"do": "adopt", "is_wanted": is_wanted}):
            self.levels = reply["levels"]

    async def ask(self, frame: Mapping[str, Any]) -> Frame | None:
        """One request about a run that is there already; None: the spawner is dead. For `Process`."""
        reply: Frame | None = await self._call(frame)
        return reply

    def end_soon(self, process: Process) -> None:
        """End that run's tree in a task that nobody waits for."""
        if self._nursery is not None and not self._is_dead:
            self._nursery.start_soon(process.end_tree)

    def strays(self, process: Process) -> Collection[int]:
        """The spawner's children without the leaders, and what is beside them, of all other runs. For `Process`."""
        # Every look at every run asks this, so it is put together once a start and an end, and not once a look.
        if self._apart is None:
            self._apart = frozenset(pid for run in self._processes.values() for pid in (run.pid, *run.beside))
        own = {process.pid, *process.beside}
        return [pid for pid in children_of(self.pid) if pid not in self._apart or pid in own]

    def attach(self, nursery: trio.Nursery) -> None:
        """Begin to talk. Only `open_spawner` calls this."""
        self._nursery = nursery
        nursery.start_soon(self._send)
        nursery.start_soon(self._live)
        nursery.start_soon(self._watch)

    async def close(self) -> None:
        """Have the spawner end every run and exit; within five seconds, or it is killed. Nothing can be started any more.

        `open_spawner` does it at its end at the latest, and after a call that was cancelled.
        """
        self.is_closing = True
        with suppress(OSError):  # it is dead already
            self._sock.shutdown(socket.SHUT_WR)  # the end of the socket is the order to end everything
        with trio.move_on_after(_CLOSE_S):
            await self._died.wait()
        if not self._died.is_set():
            self._process.kill()
            await self._died.wait()

    async def _request(self, do: str, request: RunRequest) -> Process | Allowed | Denied | SpawnFailed:
        try:
            result = await self._call({"do": do, "request": to_json(request)})
        except ProtocolError as error:
            return SpawnFailed("exec-failed", f"cannot start anything that large: {error}")
        return SpawnFailed("spawner-died", "cannot start anything: the spawner is dead") if result is None else result

    async def _call(self, frame: Mapping[str, Any]) -> Any:
        """Queue a request and wait for what became of it; None: the spawner is dead, and what it had started was ended."""
        number, self._next_number = self._next_number, self._next_number + 1
        body = encode({**frame, "id": number})
        await self._slots.acquire()
        if self._is_dead:
            self._slots.release()
            await self._died.wait()
            return None
        asked = self._asked[number] = _Asked()
        try:
            await self._outgoing.send(body)
        except trio.BrokenResourceError:  # it died while this waited for its turn
            await self._died.wait()
            return None
        except BaseException:  # never sent, so nothing can come of it
            if self._asked.pop(number, None) is not None:
                self._slots.release()
            raise
        try:
            await asked.answered.wait()
        except BaseException:
            asked.given_up = True
            raise
        return asked.result

    async def _send(self) -> None:
        stream = trio.SocketStream(self._sock)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # it is dead, which `_live` sees too
            async for body in self._to_send:
                await stream.send_all(body)

    async def _live(self) -> None:
        """Read until the spawner is gone, then end what it left."""
        try:
            await self._receive()
        except ProtocolError:
            self._process.kill()
            raise
        finally:
            with trio.CancelScope(shield=True):
                self._is_dead = True
                with trio.move_on_after(1.0):
                    await self._process.wait()
                if self._process.returncode is None:
                    self._process.kill()
                    await self._process.wait()
                self._to_send.close()
                if self._process.returncode != 0:  # 0: it has ended everything itself
                    spared = self._spared | (birth.living - {self.pid})
                    await trio.to_thread.run_sync(burial.bury, self.cgroup, spared)
                for fd in self._reader.take_fds():
                    os.close(fd)
                for run in list(self._processes.values()):
                    run.exited(ExitStatus(spawner_died=True))
                self._processes.clear()
                self._apart = None
                for number in list(self._asked):
                    self._resolve(number, None)
                self._died.set()

    async def _receive(self) -> None:
        room = socket.CMSG_SPACE(MAX_FDS * 4)
        while True:
            while (received := self._reader.next_frame()) is not None:
                self._take(*received)
            try:
                data, rights, flags, _ = await self._sock.recvmsg(_READ_BYTES, room, socket.MSG_CMSG_CLOEXEC)
            except OSError:
                return
            if not data:
                return
            self._heard += len(data)
            self._reader.feed(data, _fds_in(rights, flags))

    def _take(self, frame: Frame, fds: tuple[int, ...]) -> None:
        if "exited" in frame:
            run = self._processes.pop(frame["exited"], None)
            self._apart = None
            if run is not None:
                named = {name: frame.get(name, False) for name in ("oom", "full")}
                run.exited(ExitStatus(frame.get("code"), frame.get("signal"), **named))
            return
        result: Any = frame
        if "denied" in frame:
            result = Denied(problems_from_json(frame["denied"]))
        elif "failed" in frame:
            result = SpawnFailed(*frame["failed"])
        elif "run" in frame:
            result = self._take_run(frame, fds)
        elif "plan" in frame:
            result = Allowed(plan_from_json(frame["plan"]))
        self._resolve(frame["re"], result)

    def _take_run(self, frame: Frame, fds: tuple[int, ...]) -> Process | SpawnFailed:
        number = frame["run"]
        if len(fds) < frame["fds"] or frame.get("lost"):  # no descriptors left here, or too many on their way: they are gone
            for fd in fds:
                os.close(fd)
            assert self._nursery is not None
            self._nursery.start_soon(self._call, {"do": "end", "run": number})
            return SpawnFailed(
                "start-failed", "cannot take the run's descriptors: the daemon, or its user, has too many files open"
            )
        plan = plan_from_json(frame["plan"])
        folder = Path(frame["cgroup"]) if frame["cgroup"] else None
        run = Process(
            self,
            run=number,
            pid=frame["pid"],
            plan=plan,
            digests=frame["digests"],
            fds=fds,
            folder=folder,
            beside=frame["beside"],
        )
        self._processes[number] = run
        self._apart = None
        return run

    def _resolve(self, number: int, result: Any) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            raise ProtocolError(f"cannot match reply {number}: nothing was asked")
        self._slots.release()
        if asked.given_up:
            if isinstance(result, Process):
                result.close()
            return
        asked.result = result
        asked.answered.set()

    async def _watch(self) -> None:
        """A spawner that owes a reply and says nothing at all hangs, and nothing but its death can end its runs then.

        The silence is counted in looks, not by the clock: a daemon that was itself held up, or stopped, has not listened.
        """
        silent, heard = 0, self._heard
        while not self._is_dead:
            await trio.sleep(_WATCH_S)
            is_owed = bool(self._asked) and heard == self._heard
            silent = silent + 1 if is_owed else 0
            heard = self._heard
            if silent * _WATCH_S >= REPLY_S and not _has_more(self._sock):
                self._process.kill()
                return


async def _greet(born: birth.Newborn) -> Spawner:
    """Read the first word."""
    reader, sock = FrameReader(), born.sock
    with trio.move_on_after(START_S):
        try:
            while (received := reader.next_frame()) is None:
                data = await sock.recv(_READ_BYTES)
                if not data:
                    raise birth.SpawnerUnavailable("cannot start the spawner: it ended at once, and its error output says why")
                reader.feed(data)
        except OSError as error:
            raise birth.SpawnerUnavailable(f"cannot start the spawner: {error}") from error
        frame, _ = received
        if "refused" not in frame:
            return Spawner(born, reader=reader, ready=frame)
        told = frame["refused"]
        if "source" in told:
            raise LoadError(told["source"], problems_from_json(told["problems"]))
        raise birth.SpawnerUnavailable(f"cannot start the spawner: {told['why']}")
    raise birth.SpawnerUnavailable(f"cannot start the spawner: no word from it within {START_S:.0f} s")


def _adapters(frame: Frame) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    return {name: tuple((adapter, tuple(modes)) for adapter, modes in of) for name, of in frame["adapters"].items()}


def _has_more(sock: trio.socket.SocketType) -> bool:
    """Whether there is something to hear that nobody has taken in yet."""
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _fds_in(rights: list[tuple[int, int, bytes]], flags: int) -> tuple[int, ...] | None:
    """The descriptors that came with a message; None: it brought none. A cut list counts as one that came short."""
    fds: list[int] = []
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(data) - len(data) % 4
            fds += memoryview(data[:whole]).cast("i")
    if not fds and not flags & socket.MSG_CTRUNC:
        return None
    return tuple(fds)
