"""How does a local run go, from its first output to its exit code?

One task of an in-process engine: its output is printed as it comes, its questions are answered by the prepared answers, else
by the person at the terminal, else not at all: then the task is ended at once and the prompt stands on stderr as JSON. Ctrl-C
once says that the task still runs, again cancels it; SIGTERM and SIGHUP cancel it at once. The engine's own feed is the only
source of what is printed, so what a person sees here is what an orchestrator would see.
"""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import attrs
import trio

from sandboxd.a2a.extensions import HITL_RESPONSE_FOR, OUTCOME
from sandboxd.a2a.model import ArtifactUpdate, Message, Part, StatusUpdate, Task, TaskNews, TaskState, TaskStatus
from sandboxd.cli.ask import InputEnded, LineFull, forget_typed, interpret, question_lines, read_line
from sandboxd.cli.console import STATE_STYLES, Console
from sandboxd.cli.exits import Exit, signal_exit
from sandboxd.cli.facts import Question, artifact_facts, question_of
from sandboxd.cli.outcome import exit_code, result_line
from sandboxd.cli.output import OutputPrinter, TextStreams
from sandboxd.cli.prepared import PreparedAnswers
from sandboxd.errors import AnswerInvalid, DeliveryFailed, PromptNotOpen, Refusal
from sandboxd.operations.stream import StreamEvent

_CANCEL_WAIT_S: Final = 20.0  # the stop ladder's own bounds are far below this


class Engine(Protocol):
    """What a run needs of the engine: the operations that any client has."""

    async def send(self, message: Message) -> Task:
        """Create a task, or answer its question; raises what the operations raise."""

    def events(self, task_id: str, *, after: int) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """The task as it stood at `after`, then its news."""

    async def cancel(self, task_id: str, reason: str) -> Task:
        """End the task."""


@attrs.define
class Session:
    """One run. `keyboard` is the descriptor of the terminal that answers; None: nobody is there."""

    engine: Engine
    console: Console
    prepared: PreparedAnswers
    keyboard: int | None
    as_json: bool = False
    _printer: OutputPrinter = attrs.field(init=False)
    _texts: TextStreams = attrs.field(init=False, factory=TextStreams)
    _task_id: str = attrs.field(init=False, default="")
    _context_id: str = attrs.field(init=False, default="")
    _asked: int = attrs.field(init=False, default=0)
    _answered: int = attrs.field(init=False, default=0)
    _asking: trio.CancelScope | None = attrs.field(init=False, default=None)
    _open: Question | None = attrs.field(init=False, default=None)
    _last: TaskStatus | None = attrs.field(init=False, default=None)
    _code: int | None = attrs.field(init=False, default=None)  # set where we end the task, and so decide the code

    def __attrs_post_init__(self) -> None:
        self._printer = OutputPrinter(self.console)

    async def run(self, message: Message) -> int:
        """Start the task and stay until its end; the exit code."""
        began = trio.current_time()
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task = await self.engine.send(message)
            self._task_id, self._context_id = task.id, task.context_id
            self._rule("output")
            async with trio.open_nursery() as nursery:  # the asker and the signals stop with the task's last event
                nursery.start_soon(self._on_signals, signals)
                async with self.engine.events(task.id, after=1) as events:
                    async for event in events:
                        self._on_news(event.seq, event.item, nursery)
                nursery.cancel_scope.cancel()
        return self._end(trio.current_time() - began)

    def _on_news(self, seq: int, item: TaskNews, nursery: trio.Nursery) -> None:
        if isinstance(item, ArtifactUpdate):
            self._on_output(seq, item)
            return
        self._last = item.status
        question = self._question(item)
        if question is not None and self._open is not None and question.prompt_id == self._open.prompt_id:
            return
        if self._open is not None:
            self._retire(item.status)
        if question is not None:
            self._open, self._asking = question, trio.CancelScope()
            self._asked += 1
            nursery.start_soon(self._answer, question, self._asking)

    def _question(self, item: Task | StatusUpdate) -> Question | None:
        message = item.status.message
        if item.status.state is not TaskState.INPUT_REQUIRED or message is None:
            return None
        ids = {"task_id": self._task_id, "context_id": self._context_id}
        return question_of(message.metadata or {}, asked_at=item.status.timestamp, **ids)

    def _retire(self, status: TaskStatus) -> None:
        """The open question is open no longer; said only when nobody here answered it."""
        if self._asking is not None:
            self._asking.cancel()
            text = status.message.parts[0].value if status.message and status.message.parts else ""
            self._printer.to_line_start()
            self.console.talk(f"└ no longer open{f': {text}' if text else ''}", style="yellow")
        self._open = self._asking = None

    async def _answer(self, question: Question, scope: trio.CancelScope) -> None:
        with scope:
            self._printer.to_line_start()
            self._news("question", prompt=question.as_json())
            text = self.prepared.take(question.text)
            if text is not None:
                self.console.talk(f"┌ question {self._asked}: {question.text}")
                self.console.talk(f"└ answered by --answer: {text if question.kind != 'secret' else 'a secret'}")
                if await self._send(question, text):
                    return
            if self.keyboard is None:
                await self._give_up(question)
                return
            await self._ask_person(question, self.keyboard)

    async def _ask_person(self, question: Question, keyboard: int) -> None:
        ends = 0
        forget_typed(keyboard)
        for line in question_lines(question, self._asked, datetime.now(UTC)):
            self.console.talk(line)
        while True:
            self._invite()
            try:
                text = interpret(question, await read_line(keyboard, hide=question.kind == "secret"))
            except LineFull:
                self.console.talk("│ that line fills the terminal's line buffer, and its end may be missing: nothing was sent")
                continue
            except InputEnded:
                ends += 1
                self.console.talk("")
                if ends > 1:
                    await self._give_up(question)
                    return
                self.console.talk("│ end of input is no answer: once more ends the task")
                continue
            if text is None:
                self.console.talk("│ there is no default: type one of the choices, or any other text")
            elif await self._send(question, text):
                return

    async def _send(self, question: Question, text: str) -> bool:
        """Whether the question is settled; False: it is still open, ask again."""
        payload = {"text": text}
        metadata = {HITL_RESPONSE_FOR: {"prompt_id": question.prompt_id, "payload": payload}}
        part = Part("data", payload, media_type="application/json")
        message = Message(str(uuid.uuid4()), "user", (part,), self._context_id, self._task_id, metadata)
        asking, self._asking = self._asking, None  # from here on the end of the question is our own doing
        try:
            with trio.CancelScope(shield=True):  # an answer under way is not torn by the news that it causes
                await self.engine.send(message)
        except AnswerInvalid as refusal:
            self._complain("the answer does not fit", refusal)
            return not self._is_still_open(question, asking)
        except DeliveryFailed as refusal:
            self._complain("the answer could not be typed", refusal)
            return not (refusal.facts.get("prompt_open", False) and self._is_still_open(question, asking))
        except PromptNotOpen as refusal:
            self._complain("too late, nothing was typed", refusal)
            return True
        self._answered += 1
        self._news("answered", prompt_id=question.prompt_id)
        return True

    def _is_still_open(self, question: Question, asking: trio.CancelScope | None) -> bool:
        """Whether the question can be asked again: the news of its end may have come while its answer was refused."""
        if self._open is not question:
            return False
        self._asking = asking
        return True

    async def _give_up(self, question: Question) -> None:
        self.console.talk(json.dumps(question.as_json(), separators=(",", ":")))
        if self.prepared.next_pattern is not None:
            self.console.talk(f"The next --answer waits for `{self.prepared.next_pattern}`, which is not in the question.")
        self.console.talk("Nobody is here to answer: the task is ended.")
        self._code = Exit.RUN_UNANSWERED
        self._asking = None
        await self._cancel("nobody was there to answer its question")

    async def _on_signals(self, signals: Any) -> None:
        interrupts = 0
        async for number in signals:
            interrupts += number == signal.SIGINT
            self._printer.to_line_start()
            if number == signal.SIGINT and interrupts == 1:
                self.console.talk("", style="")
                self.console.talk("The task is still running; Ctrl-C again cancels it.", style="yellow")
                if self._asking is not None and self.keyboard is not None:
                    self._invite()
                continue
            if self._code is None:
                self._code = signal_exit(number)
                self.console.talk("Canceling the task …", style="yellow")
                await self._cancel(f"{signal.Signals(number).name} in the terminal that ran it")

    async def _cancel(self, reason: str) -> None:
        with trio.move_on_after(_CANCEL_WAIT_S) as bound:
            bound.shield = True  # the task is ended even when the question is withdrawn under it
            try:
                await self.engine.cancel(self._task_id, reason)
            except Refusal as refusal:  # it ended by itself meanwhile
                self._complain("not canceled", refusal)

    def _on_output(self, seq: int, update: ArtifactUpdate) -> None:
        name = update.artifact.artifact_id
        data = b"".join(_bytes(part) for part in update.artifact.parts)
        if self.as_json:
            if text := self._texts.feed(name, data):
                self._news("output", seq=seq, artifact=name, text=text)
            return
        cut = artifact_facts({"metadata": update.artifact.metadata or {}}).cut
        if cut:
            self._printer.say_cut(name, cut)
        self._printer.write(name, data)

    def _end(self, took_s: float) -> int:
        status = self._last
        assert status is not None  # the feed begins with the task
        outcome = dict(status.outcome or {})
        if not outcome and status.message is not None:
            outcome = dict((status.message.metadata or {}).get(OUTCOME) or {})
        state = status.state.value
        code = self._code if self._code is not None and state == "canceled" else exit_code(state, outcome)
        self._printer.finish()
        self._news("result", state=state, outcome=outcome, exit=code, task_id=self._task_id)
        self._rule("result")
        line = result_line(state, outcome, took_s=took_s, questions=self._answered, task_id=self._task_id)
        self.console.talk(line, style=STATE_STYLES.get(state, ""))
        summary = str(outcome.get("summary", ""))
        if state != "completed" and summary:
            self.console.talk(summary)
        return code

    def _invite(self) -> None:
        print("└ answer: ", end="", file=self.console.err, flush=True)

    def _rule(self, title: str) -> None:
        if not self.as_json:
            self.console.talk(f"── {title} {'─' * 60}", style="dim")

    def _complain(self, what: str, refusal: Refusal) -> None:
        self.console.talk(f"│ {what}: {refusal.message}", style="yellow")
        for problem in refusal.problems:
            self.console.talk(f"│   {problem}")

    def _news(self, event: str, **facts: Any) -> None:
        if self.as_json:
            self.console.object({"schema": "sandboxd.run/1", "event": event, **facts})


def _bytes(part: Part) -> bytes:
    return part.value if part.kind == "raw" else str(part.value).encode("utf-8", "surrogatepass")
