"""What becomes of one running command, from its first byte to its final state?

A `TaskRun` owns the run's descriptors, its detector, its binding and its place in the event log; nobody else touches them
(invariant 2). Others call its `…_nowait` functions, which change something in memory and return.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import trio

from sandboxd import logs, metrics
from sandboxd.a2a.model import Message, TaskState
from sandboxd.detect.detector import Detector
from sandboxd.errors import Problem, PromptNotOpen
from sandboxd.hitl.envelope import Response
from sandboxd.live.alarm import Alarm
from sandboxd.live.capture import Capture, Piece
from sandboxd.live.clock import Clock
from sandboxd.live.draft import Drafts
from sandboxd.live.past import Accepted
from sandboxd.live.questions import Questions
from sandboxd.live.reader import Reader
from sandboxd.live.recorder import Recorder, Ticket
from sandboxd.live.tide import Tide
from sandboxd.live.verdict import Ending, finished
from sandboxd.runner.process import ExitStatus, Process
from sandboxd.runner.witness import Witness
from sandboxd.store.base import PushEntry
from sandboxd.tasks.events import Reason, Started, Wrote
from sandboxd.tasks.output import TERMINAL

FLUSH_BYTES: Final = 32 * 1024  # output that is as large does not wait for the tide
DRAIN_QUIET_S: Final = 0.3  # after the end, a descriptor that somebody else holds open is given up after this silence
DRAIN_MOST_S: Final = 1.0  # or after this, when they never fall silent; what the leader wrote has been read long before

_BOUNDS: Final[Mapping[Reason, str]] = {"event-limit": "max_events", "prompt-limit": "max_prompts"}

_log = logs.logger(__name__)


class TaskRun:
    """One living process and everything that goes on around it."""

    def __init__(
        self,
        process: Process,
        recorder: Recorder,
        detector: Detector | None,
        clock: Clock,
        *,
        tide: Tide,
        alarm: Alarm,
        stop_grace_s: float,
        witness: Witness | None = None,
    ) -> None:
        plan = process.plan
        self._process = process
        self._recorder = recorder
        self._clock = clock
        self._tide = tide
        self._timeout_s = plan.limits.timeout_s
        self._stop_grace_s = stop_grace_s
        self._started_at = trio.current_time()
        ends_at = self._started_at + self._timeout_s
        self._questions = (
            Questions(
                *(process, detector, recorder, plan.prompts, clock),
                alarm=alarm,
                drafts=Drafts(process.terminal_fd, plan.prompts, clock, tide, ends_at),
                ends_at=ends_at,
                end=self._pass_limit,
                witness=witness,
            )
            if detector is not None and process.terminal_fd is not None
            else None
        )
        self._captures = {name: Capture(name, plan.limits.output_bytes) for name, _ in _outputs(process)}
        self._kept: dict[str, int] = {}  # artifact id → bytes appended so far; absent: not opened yet
        self._ending: Ending | None = None
        self._survivors: tuple[int, ...] = ()
        self._passed: Reason | None = None  # the limit that was passed first, if any was
        self._waiting = trio.CancelScope()  # for the leader's exit; cancelled by whatever else ends the run
        recorder.on_overrun = partial(self._pass_limit, "event-limit")
        self._fault: Exception | None = None  # of ours, met where nobody of this run was there to hear of it

    def __repr__(self) -> str:
        return f"<TaskRun {self._recorder.view.task_id} pid={self._process.pid} {self._recorder.view.state} {self._ending}>"

    async def live(self) -> None:
        """Conduct the run to its terminal state, and return once that is on disk."""
        try:
            self._recorder.record(Started(self._clock.now(), _facts(self._process)))
            async with trio.open_nursery() as nursery:  # the log outlives the process: it ends after the terminal event
                nursery.start_soon(self._recorder.write)
                try:
                    status = await self._conduct()
                except Exception:
                    _log.exception("Cannot conduct the run", task=self._recorder.view.task_id)
                    self._ending = Ending("internal")
                    status = await self._stop()
                finally:
                    self._process.close()
                self._finish(status)
        finally:
            self._process.close()  # whatever went wrong, no process is left without a run

    def foreign_schema_nowait(self, prompt_id: str) -> Mapping[str, Any] | None:
        """See `Questions.foreign_schema`."""
        return self._questions.foreign_schema(prompt_id) if self._questions else None

    def answer_nowait(
        self,
        response: Response,
        message: Message,
        principal: str,
        misfits: tuple[Problem, ...] = (),
        push: PushEntry | None = None,
    ) -> Accepted:
        """See `Questions.answer_nowait`; a run that cannot ask has no open prompt."""
        if self._questions is None or self._ending is not None:
            raise (
                self._questions.not_open(response.prompt_id)
                if self._questions
                else PromptNotOpen(
                    "this run takes no answers: it was sent without `input_mode`", facts={"prompt_id": response.prompt_id}
                )
            )
        return self._questions.answer_nowait(response, message, principal, misfits, push)

    def reissue_nowait(self, prompt_id: str, principal: str) -> Ticket | None:
        """See `Questions.reissue_nowait`; None: this run asks nothing, or is made to end."""
        if self._questions is None or self._ending is not None:
            return None
        return self._questions.reissue_nowait(prompt_id, principal)

    def accepted_nowait(self, prompt_id: str) -> Accepted | None:
        """The answer that a prompt of this run got; whoever tells of it waits for its ticket first."""
        return self._questions.accepted(prompt_id) if self._questions else None

    def end_nowait(self, ending: Ending) -> None:
        """Ask for the end. The first one to ask gives the reason, unless the program has ended by itself already."""
        if self._ending is None and self._process.is_alive():
            self._ending = ending
            if self._questions:
                self._questions.close()
            self._waiting.cancel()

    async def _conduct(self) -> ExitStatus:
        async with trio.open_nursery() as nursery:  # everything that lives as long as the process
            readers = [
                Reader(fd, self._taker(name), self._questions.happened if self._questions and name == TERMINAL else None)
                for name, fd in _outputs(self._process)
            ]
            for reader in readers:
                nursery.start_soon(reader.run)
            status = await self._until_exit()
            if self._questions:
                self._questions.close()
            with trio.move_on_after(DRAIN_MOST_S):  # a store that holds the reading back does not keep the rest alive
                await _drain(readers)
            self._survivors = await self._process.end_tree()  # what the program left behind does not outlive the run
            await _drain(readers)
            nursery.cancel_scope.cancel()
        if self._fault is not None:
            raise self._fault
        return status

    async def _until_exit(self) -> ExitStatus:
        # One task waits for whatever comes: one for each would be most of what an idle run holds in memory.
        self._waiting.deadline = self._started_at + self._timeout_s
        with self._waiting:
            if self._questions:
                await self._questions.watch(self._flush)
            await self._process.wait()
        if self._fault is not None:
            raise self._fault
        if self._waiting.cancelled_caught:
            self.end_nowait(Ending(self._passed or "timeout"))  # for nothing where somebody asked for the end already
        return await (self._process.wait() if self._ending is None else self._stop())

    async def _stop(self) -> ExitStatus:
        self._survivors = await self._process.stop(grace_s=self._stop_grace_s)
        if self._process.pid in self._survivors:  # it hangs in the kernel: when and how it will end nobody knows
            return ExitStatus()
        return await self._process.wait()

    def _pass_limit(self, reason: Reason) -> None:
        """Called in the midst of what passed the limit, so it only leaves word."""
        if self._passed is None:
            self._passed = reason
            if bound := _BOUNDS.get(reason):
                metrics.BOUNDS.labels(bound=bound).inc()
        self._waiting.cancel()

    def _taker(self, name: str) -> Any:
        capture = self._captures[name]
        flush = self._flush_in_time  # bound once: the tide knows it by that

        async def take(data: bytes) -> None:
            if self._questions and name == TERMINAL:
                data = self._questions.feed(data)
            capture.add(data)
            if capture.pending >= FLUSH_BYTES:
                self._flush()
            self._tide.join(flush)
            await self._recorder.room()

        return take

    def _flush_in_time(self) -> None:
        """Called by the tide, which serves all runs: what goes wrong here is this run's own."""
        try:
            self._uncover()
            self._flush()
        except Exception as error:
            self._fault = error
            self._waiting.cancel()

    def _uncover(self) -> None:
        """What may have been the beginning of a secret, and was not."""
        if self._questions and (rest := self._questions.rest()):
            self._captures[TERMINAL].add(rest)

    def _flush(self) -> None:
        for name, capture in self._captures.items():
            if piece := capture.take():
                self._append(name, piece, last=False)

    def _append(self, name: str, piece: Piece, *, last: bool) -> None:
        offset = self._kept.get(name, 0)
        event = Wrote(self._clock.now(), name, offset, len(piece.data), first=name not in self._kept, last=last, cut=piece.cut)
        self._kept[name] = offset + len(piece.data)
        self._recorder.record(event, piece.data)

    def _finish(self, status: ExitStatus) -> None:
        self._uncover()
        for name, capture in self._captures.items():
            pieces = capture.finish()
            metrics.OUTPUT_DROPPED_BYTES.inc(capture.dropped)
            if capture.dropped:
                metrics.BOUNDS.labels(bound="output").inc()
            for index, piece in enumerate(pieces, 1):
                self._append(name, piece, last=index == len(pieces))
            if not pieces and name in self._kept:
                self._append(name, Piece(b""), last=True)
        event = finished(
            self._clock.now(), str(uuid.uuid4()), status, self._ending, timeout_s=self._timeout_s, survivors=self._survivors
        )
        if event.reason == "tmp-limit":
            metrics.BOUNDS.labels(bound="tmp").inc()
        state = self._recorder.record(event).view.state
        assert state is not None
        elapsed_s = trio.current_time() - self._started_at
        metrics.task_ended(self._process.plan.mode, state.value, event.reason, event.fail_kind, elapsed_s)
        _log.info("ended", task=self._recorder.view.task_id, state=state.value, reason=event.reason, exit_code=event.exit_code)

    @property
    def state(self) -> TaskState | None:
        """The state with everything that was recorded, on disk or not yet."""
        return self._recorder.view.state


async def _drain(readers: Sequence[Reader]) -> None:
    for reader in readers:
        reader.expect_end()
    for reader in readers:
        await reader.drained(DRAIN_QUIET_S, DRAIN_MOST_S)


def _outputs(process: Process) -> list[tuple[str, int]]:
    named = [(TERMINAL, process.terminal_fd), ("stdout", process.stdout_fd), ("stderr", process.stderr_fd)]
    return [(name, fd) for name, fd in named if fd is not None]


def _facts(process: Process) -> Mapping[str, Any]:
    plan = process.plan
    return {
        "adapter": plan.adapter,
        "mode": plan.mode,
        "policy": plan.policy,
        "policy_digest": plan.policy_digest,
        "isolation": plan.isolation,
        "terminal": plan.terminal,
        "timeout_s": plan.limits.timeout_s,
        "digests": dict(process.digests),
    } | ({"isolation_notes": list(plan.isolation_notes)} if plan.isolation_notes else {})
