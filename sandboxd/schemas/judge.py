"""Who evaluates foreign schemas for the daemon, and for how long at most?

A few workers, each with one question at a time, each killed when it has not answered within `DEADLINE_S`; another one is ready
meanwhile, so one hostile schema costs nobody else anything. The event loop only waits. What an honest schema never needs is not
taken from others either: a worker that has used `HONEST_S` of a processor goes on with what no other process wants (SCHED_IDLE,
sched(7)), and the next one is started when the question is over, not beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

import sandboxd
from sandboxd import logs
from sandboxd.errors import Problem
from sandboxd.hitl.foreign import refuse_schema, refuse_value
from sandboxd.schemas.worker import FRAME_MAX_BYTES, HEADER, READY
from sandboxd.values import frozen

DEADLINE_S: Final = 0.25  # hitl-prompt/v1, S-2
HONEST_S: Final = 0.02  # of processor time; what we know of takes some 2 ms
LOOK_S: Final = 0.01
WORKERS_MAX: Final = 4
SPARE: Final = 2
START_S: Final = 10.0  # a start takes some 0.3 s; a loaded machine may need longer
# Nice from the first line on: a start burns 0.3 s of a processor, and a hostile schema all that it gets. But not very nice: an
# honest question has 250 ms on a busy machine as well. (The shipped unit lets no process change priorities, its own included;
# there `CPUWeight=` and the workers' number hold the rest of the host free.)
_BOOTSTRAP: Final = """import os, sys
try:
    os.nice(5)
except PermissionError:
    pass
sys.path[:] = sys.argv[1:]
from sandboxd.schemas.worker import main
main()"""

_log = logs.logger(__name__)


@frozen
class Judged:
    """The schema was evaluated; empty: the value fits. `field` is a JSON pointer into the value."""

    problems: tuple[Problem, ...]


@frozen
class Unjudged:
    """Whether the value fits is not known, and why not."""

    why: str


class _Worker:
    """One process, owned by whoever took it."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert isinstance(process.stdout, trio.lowlevel.FdStream)
        self._process = process
        self._sink = process.stdin
        self._source = process.stdout
        self._answers_fd = process.stdout.fileno()
        self.has_yielded = False

    async def ready(self) -> None:
        """Return once it can be asked; `trio.BrokenResourceError` when it died before."""
        if await self._source.receive_some(1) != READY:
            raise trio.BrokenResourceError("the worker died at its start")

    async def ask(self, question: bytes) -> Any:
        """Its answer; `trio.BrokenResourceError` when it died."""
        await self._sink.send_all(HEADER.pack(len(question)) + question)
        used_s = self._processor_s()
        while not await self._answers_within(LOOK_S):
            if self._processor_s() - used_s > HONEST_S:
                self._yield_nowait()
                break
        (size,) = HEADER.unpack(await self._exactly(HEADER.size))
        if size > FRAME_MAX_BYTES:
            raise trio.BrokenResourceError("the worker answers too much")
        return json.loads(await self._exactly(size))

    async def _answers_within(self, patience_s: float) -> bool:
        with trio.move_on_after(patience_s):
            await trio.lowlevel.wait_readable(self._answers_fd)
            return True
        return False

    def _processor_s(self) -> float:
        """The processor time that it has used so far, 0 when it has died; its clock's number is clock_getcpuclockid(3)'s."""
        try:
            return time.clock_gettime((~self._process.pid << 3) | 2)
        except OSError:
            return 0.0

    def _yield_nowait(self) -> None:
        """Have it use only what no other process wants from now on. It cannot go back, so this is its last question."""
        self.has_yielded = True
        with contextlib.suppress(OSError):  # it has just died; or this kernel has no such thing, and then it stays nice
            os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))

    async def end(self) -> None:
        """Kill and reap it; not cut short by cancellation, since SIGKILL takes no time."""
        with trio.CancelScope(shield=True):
            self._process.kill()
            await self._process.wait()
            await self._sink.aclose()
            await self._source.aclose()

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self._source.receive_some(size - len(data))
            if not piece:
                raise trio.BrokenResourceError("the worker died")
            data += piece
        return data


class Judge:
    """Made by `open_judge`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._idle: deque[_Worker] = deque()
        self._starting = 0
        self._seats = trio.CapacityLimiter(WORKERS_MAX)

    def __repr__(self) -> str:
        return f"<Judge idle={len(self._idle)} busy={self._seats.borrowed_tokens}>"

    async def judge(self, schema: Mapping[str, Any], value: Any) -> Judged | Unjudged:
        """Whether the value fits, within `DEADLINE_S` of a worker's time; both are bounded as `hitl.foreign` says."""
        if refused := refuse_schema(schema):
            return Unjudged(f"the schema cannot be used: {refused[0]}")
        if refused := refuse_value(value):
            return Judged(refused)
        question = json.dumps({"schema": schema, "value": value}).encode()
        async with self._seats:
            return await self._ask(question)

    def warm_nowait(self) -> None:
        """Have workers ready for the next questions."""
        for _ in range(SPARE - len(self._idle) - self._starting):
            self._starting += 1
            self._nursery.start_soon(self._prepare)

    async def _ask(self, question: bytes) -> Judged | Unjudged:
        worker = None
        try:
            worker = self._idle.popleft() if self._idle else await _start()
            with trio.move_on_after(DEADLINE_S):
                answer = await worker.ask(question)
                if not worker.has_yielded:
                    self._idle.append(worker)
                    worker = None
                if "problems" in answer:
                    return Judged(tuple(Problem(*triple) for triple in answer["problems"]))
                return Unjudged(f"the schema cannot be used: {answer['unusable']}")
            _log.warning("Cannot evaluate a schema", why=f"took longer than {DEADLINE_S} s")
            return Unjudged(f"the schema takes longer than {DEADLINE_S * 1000:.0f} ms to evaluate")
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            _log.warning("Cannot evaluate a schema", why=str(error) or type(error).__name__)
            return Unjudged("the schema's evaluation broke down")
        finally:
            if worker is not None:  # nobody waits for its death: one that has yielded may take long to die
                self._nursery.start_soon(worker.end)
            self._drop_surplus()
            self.warm_nowait()

    async def _prepare(self) -> None:
        try:
            self._idle.append(await _start())
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            _log.error("Cannot start a schema worker", why=str(error) or type(error).__name__)
        finally:
            self._starting -= 1

    def _drop_surplus(self) -> None:
        while len(self._idle) > SPARE:
            self._nursery.start_soon(self._idle.pop().end)

    async def close(self) -> None:
        """End all workers that nobody holds."""
        while self._idle:
            await self._idle.pop().end()


@asynccontextmanager
async def open_judge() -> AsyncIterator[Judge]:
    """A judge for as long as the block runs; no worker outlives it. None is started before the first question."""
    async with trio.open_nursery() as nursery:  # starts and ends of workers, which nobody's question waits for
        judge = Judge(nursery)
        try:
            yield judge
        finally:
            nursery.cancel_scope.cancel()
            await judge.close()


async def _start() -> _Worker:
    # Isolated and without site, as the spawner: nothing but these paths decides what code runs there.
    command = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, *_import_path()]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/"
    )
    worker = _Worker(process)
    try:
        with trio.fail_after(START_S):
            await worker.ready()
    except BaseException:
        await worker.end()
        raise
    return worker


def _import_path() -> list[str]:
    home = str(Path(sandboxd.__file__).resolve().parent.parent)
    return [home, *(entry for entry in sys.path if entry.startswith("/") and entry != home)]
