"""Which runs are alive, and how does each begin and end?

Every run is conducted by a task of the daemon's own nursery, never by the request that asked for it, so a client that goes
away ends nothing. The supervisor has a bound on live tasks, and says no before anything is on record.
"""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from sandboxd import logs, metrics
from sandboxd.detect.detector import Detector
from sandboxd.detect.load import Pack
from sandboxd.detect.rule import Rule
from sandboxd.errors import NotReady, TooBusy
from sandboxd.live.alarm import Alarm
from sandboxd.live.clock import Clock
from sandboxd.live.quota import Quota, Seats
from sandboxd.live.recorder import EVENTS_MAX, Recorder
from sandboxd.live.run import TaskRun
from sandboxd.live.scripted import Script, ScriptRun
from sandboxd.live.tide import Tide
from sandboxd.live.verdict import Ending
from sandboxd.policy.model import Denied, LaunchPlan
from sandboxd.runner.client import Spawner
from sandboxd.runner.process import Process
from sandboxd.runner.protocol import RunRequest, SpawnFailed
from sandboxd.runner.witness import Witness, availability
from sandboxd.store.base import Entry, StoreUnavailable
from sandboxd.store.feed import Feed
from sandboxd.store.recovery import before_the_end
from sandboxd.tasks.events import Finished, Rejected
from sandboxd.tasks.view import TaskView, fold

SCRIPTS_MAX: Final = 1000  # they cost a few KiB each, and the public kit leaves many behind
STOP_S: Final = 10.0  # the stop ladder and the sweep take some 3 s; the rest is for a store that is slow
LADDER_S: Final = 4.0  # after it only records are waited for, and only of a store that takes any
_CHECK_EVERY_S: Final = 0.5

_log = logs.logger(__name__)

_Start = Callable[[Recorder], Awaitable[TaskRun | ScriptRun | None]]  # what lives from then on; None: it has ended already


@attrs.define
class _Creation:
    """Whether a task got on record: `refused` says why not, until it is. `free` gives its seat back."""

    free: Callable[[], None]
    done: trio.Event = attrs.field(factory=trio.Event)
    refused: NotReady | None = attrs.field(factory=lambda: NotReady("cannot start a task: it was not put on record"))


class Supervisor:
    """Starts, finds and ends runs. `asks_kernel`: whether questions need a process that waits for them (`runner.witness`)."""

    def __init__(
        self,
        feed: Feed,
        spawner: Spawner,
        packs: Mapping[str, Pack],
        clock: Clock,
        nursery: trio.Nursery,
        *,
        quota: Quota,
        stop_grace_s: float,
        max_events: int = EVENTS_MAX,
        asks_kernel: bool = True,
    ) -> None:
        self._asks_kernel = asks_kernel
        if asks_kernel and (why := availability()):
            _log.warning("Cannot ask the kernel who reads, so questions are told by their looks", reason=why)
        self._feed = feed
        self._spawner = spawner
        self._packs = packs
        self._clock = clock
        self._nursery = nursery
        self._tide, self._alarm = Tide(nursery), Alarm(nursery)
        self._seats = Seats(quota)
        self._max_events = max_events
        self._stop_grace_s = stop_grace_s
        self._runs: dict[str, TaskRun | ScriptRun | None] = {}  # None: submitted, not started yet
        self._early: dict[str, Ending] = {}  # asked to end before they started
        self._is_stopping = False
        self._stop_by = float("inf")
        self._conducted: set[trio.CancelScope] = set()
        self._unrecorded: tuple[str, ...] = ()
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<Supervisor {self._seats}>"

    def run(self, task_id: str) -> TaskRun | None:
        """The living run of that task, if there is one."""
        found = self._runs.get(task_id)
        return found if isinstance(found, TaskRun) else None

    def script(self, task_id: str) -> ScriptRun | None:
        """The script that this task plays, if it does."""
        found = self._runs.get(task_id)
        return found if isinstance(found, ScriptRun) else None

    @property
    def live(self) -> int:
        """How many tasks are live."""
        return len(self._runs)

    def change(self, packs: Mapping[str, Pack], *, quota: Quota, max_events: int, stop_grace_s: float) -> None:
        """Go by these from now on; runs that are there keep the rules and the grace that they began with."""
        self._packs, self._max_events, self._stop_grace_s = packs, max_events, stop_grace_s
        self._seats.quota = quota

    async def submit(self, principal: str, submitted: Entry, view: TaskView, request: RunRequest) -> TaskView:
        """Put a task on record and start it; return as soon as it is on record. `TooBusy`, `NotReady`: nothing happened."""
        self._refuse_when_stopping()
        self._seats.take(view.instance, principal)
        free = partial(self._seats.free, view.instance, principal)
        return await self._submit(principal, submitted, view, lambda recorder: self._start(recorder, request), free)

    async def submit_script(self, principal: str, submitted: Entry, view: TaskView, script: Script) -> TaskView:
        """The same for a task that plays a script."""

        async def play(recorder: Recorder) -> ScriptRun:
            return ScriptRun(recorder, self._clock, script)

        if len(self._runs) >= SCRIPTS_MAX:
            raise TooBusy(f"cannot start a task: {SCRIPTS_MAX} are live already, which is this profile's limit")
        self._refuse_when_stopping()
        return await self._submit(principal, submitted, view, play, lambda: None)

    def _refuse_when_stopping(self) -> None:
        if self._is_stopping:
            raise NotReady("cannot start a task: the daemon is stopping")

    async def _submit(self, principal: str, entry: Entry, view: TaskView, start: _Start, free: Callable[[], None]) -> TaskView:
        view = fold(view, entry.event)
        creation = _Creation(free)
        self._runs[view.task_id] = None
        # In a context of its own: that of whoever asks, which would live as long as the run, holds all of its request.
        contextvars.Context().run(self._nursery.start_soon, self._conduct, principal, entry, view, start, creation)
        with trio.CancelScope(shield=True):  # one commit: who asked, and asks again, must find the task on record
            await creation.done.wait()
        if creation.refused:
            raise creation.refused
        return view

    def end_nowait(self, task_id: str, ending: Ending) -> bool:
        """Ask for the end of a live task; False when it is not live."""
        if task_id not in self._runs:
            return False
        run = self._runs[task_id]
        if run is None:
            self._early.setdefault(task_id, ending)
        else:
            run.end_nowait(ending)
        return True

    @property
    def stopping_s(self) -> float:
        """How long ago the first stop began; 0: none has."""
        return trio.current_time() - self._stop_by + STOP_S if self._is_stopping else 0.0

    async def stop(self) -> Sequence[str]:
        """End every run, and return once their ends are on record; further submissions are refused.

        Gives up on a store that takes nothing, once the runs' processes have had the time to end, and on everything `STOP_S`
        after the first call: every run is abandoned then, and the ids of those whose end is not on record come back.
        """
        if not self._is_stopping:
            self._is_stopping = True
            self._stop_by = trio.current_time() + STOP_S
        for task_id in list(self._runs):
            self.end_nowait(task_id, Ending("daemon-stopped"))
        with trio.CancelScope(deadline=self._stop_by):
            async with trio.open_nursery() as nursery:  # whichever comes first
                nursery.start_soon(self._watch_store, nursery.cancel_scope)
                while self._runs:
                    await self._changed.wait()
                nursery.cancel_scope.cancel()
        # A second call finds those gone that the first one gave up, or not yet.
        self._unrecorded = tuple(dict.fromkeys((*self._unrecorded, *self._runs)))
        for conducting in self._conducted:
            conducting.cancel()
        return self._unrecorded

    async def _watch_store(self, waiting: trio.CancelScope) -> None:
        await trio.sleep_until(self._stop_by - STOP_S + LADDER_S)
        while True:
            try:
                await self._feed.store.check()
            except StoreUnavailable as error:
                _log.error("Cannot put the ends of tasks on record", tasks=len(self._runs), error=str(error))
                waiting.cancel()
            await trio.sleep(_CHECK_EVERY_S)

    async def _conduct(self, principal: str, entry: Entry, view: TaskView, start: _Start, creation: _Creation) -> None:
        task_id, free = view.task_id, creation.free
        conducting = trio.CancelScope()  # cancelled when the daemon stops and the store takes no more
        self._conducted.add(conducting)
        try:
            with conducting:
                try:
                    await self._feed.create(principal, [entry], view)
                    creation.refused = None
                except StoreUnavailable as error:
                    creation.refused = NotReady(f"cannot start a task: {error}")
                    return
                finally:
                    creation.done.set()
                run = await start(Recorder(self._feed, view, max_events=self._max_events))
                del entry, view, start, creation  # an idle run is small only if it holds nothing of how it began
                if run is not None:
                    self._runs[task_id] = run
                    if early := self._early.get(task_id):
                        run.end_nowait(early)
                    await run.live()
        except Exception:  # a bug of ours must not take the other runs along
            _log.exception("Cannot conduct the task", task=task_id)
            await self._fail(task_id)
        finally:
            self._conducted.discard(conducting)
            free()
            self._runs.pop(task_id, None)
            self._early.pop(task_id, None)
            self._changed.set()
            self._changed = trio.Event()

    async def _start(self, recorder: Recorder, request: RunRequest) -> TaskRun | None:
        task_id = request.task_id
        match await self._spawner.start(request):
            case Denied(reasons=reasons):
                metrics.REJECTED.inc()
                _log.info("rejected", task=task_id, reasons="; ".join(map(str, reasons)))
                recorder.record(Rejected(self._clock.now(), str(uuid.uuid4()), reasons))
                await recorder.write()
            case SpawnFailed(message=message):
                _log.error("Cannot start the command", task=task_id, error=message)
                recorder.record(Finished(self._clock.now(), str(uuid.uuid4()), "spawn-failed", "infrastructure", message))
                await recorder.write()
            case process:
                try:
                    return self._run_of(process, recorder, is_asking=request.command.text_line)
                except BaseException:
                    process.close()  # no process is left without a run
                    raise
        return None

    def _run_of(self, process: Process, recorder: Recorder, *, is_asking: bool) -> TaskRun:
        task_id, plan = recorder.view.task_id, process.plan
        witness, detector = None, None
        if is_asking:
            if process.terminal_fd is not None and self._asks_kernel:
                witness = Witness(process.terminal_fd, process.pid, process.strays)
            detector = Detector(rules_for(plan, self._packs), witnessed=witness is not None and witness.knows_readers)
        run = TaskRun(
            *(process, recorder, detector, self._clock),
            tide=self._tide,
            alarm=self._alarm,
            stop_grace_s=self._stop_grace_s,
            witness=witness,
        )
        _log.info("started", task=task_id, pid=process.pid, adapter=plan.adapter, mode=plan.mode, isolation=plan.isolation)
        return run

    async def _fail(self, task_id: str) -> None:
        """Put the end of a task on record that nobody conducts any more, from where the store has it."""
        try:
            now, text = self._clock.now(), "A fault of the daemon ended the task; its log has the details."
            for task in await self._feed.store.unfinished(task_id):
                recorder = Recorder(self._feed, task.view)
                events, _ = before_the_end(task, now)
                for event in (*events, Finished(now, str(uuid.uuid4()), "internal", "infrastructure", text)):
                    recorder.record(event)
                await recorder.write()
        except Exception:  # what is still open at the next start is resolved there
            _log.exception("Cannot put the task's end on record", task=task_id)


def rules_for(plan: LaunchPlan, packs: Mapping[str, Pack]) -> Sequence[Rule]:
    """The rules that watch this run: the policy's packs in its order, or all packs by name when it lists none."""
    names = plan.prompts.detectors or tuple(sorted(packs))
    return [rule for name in names for rule in packs[name].rules]
