"""What does the program ask, and does this answer reach it?

Owned by one `TaskRun`. `watch` turns the detector's news into events and live bindings; `answer_nowait` is the heart of the
project: an answer is *claimed, then typed, with no checkpoint between* (invariant 4).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from sandboxd import logs, metrics
from sandboxd.a2a.model import Message, TaskState
from sandboxd.detect.detector import Detector, Prompt, Stalled, Withdrawn
from sandboxd.detect.evidence import NOTHING_KNOWN, Evidence
from sandboxd.errors import AnswerInvalid, Problem, PromptNotOpen, UnsupportedOperation
from sandboxd.hitl.answer import check, enter_keys, keystrokes, response_schema
from sandboxd.hitl.envelope import Response, plain_text
from sandboxd.live import terminal
from sandboxd.live.alarm import Alarm
from sandboxd.live.binding import Binding, undelivered
from sandboxd.live.clock import Clock
from sandboxd.live.draft import Drafts, say
from sandboxd.live.enter import PendingEnter, Withheld
from sandboxd.live.lookout import Lookout
from sandboxd.live.notices import Notices
from sandboxd.live.past import Accepted, Past
from sandboxd.live.receipt import Receipt, Word, why_missed
from sandboxd.live.recorder import Recorder, Ticket
from sandboxd.live.veil import Veil, without_secret
from sandboxd.policy.model import PromptRules
from sandboxd.runner.process import Process
from sandboxd.runner.witness import Witness
from sandboxd.store.base import PushEntry
from sandboxd.tasks.events import Answered, Closed, Reason

_log = logs.logger(__name__)


class Questions:
    """The open prompt of one run, and what became of those before it."""

    def __init__(
        self,
        process: Process,
        detector: Detector,
        recorder: Recorder,
        rules: PromptRules,
        clock: Clock,
        *,
        alarm: Alarm,
        drafts: Drafts,
        ends_at: float,
        end: Callable[[Reason], None],
        witness: Witness | None = None,
    ) -> None:
        assert process.terminal_fd is not None
        self._process = process
        self._fd = process.terminal_fd
        self._detector = detector
        self._recorder = recorder
        self._rules = rules
        self._clock = clock
        self._ends_at = ends_at
        self._binding: Binding | None = None
        self._past = Past()
        self._asked = 0
        self._misfits = 0  # answers to the open prompt that did not fit
        self._is_over = False
        self._witness = witness
        self._notices = Notices(recorder, clock)
        self._veil = Veil()
        self._receipt: Receipt | None = None
        self._enter: PendingEnter | None = None  # of an answer whose text was typed; while it is due nothing else is asked
        terminal.tell_flushes(self._fd)
        self._drafts = drafts
        self._lookout = Lookout(alarm, self._look, self._next_look)
        self._flush: Callable[[], None] = lambda: None  # as `watch` is given it
        self._end = end  # asks for the end of the run, and returns
        process.on_exit = self._lookout.wake

    def __repr__(self) -> str:
        return f"<Questions asked={self._asked} binding={self._binding and self._binding.state.value}>"

    def feed(self, data: bytes) -> bytes:
        """Take in output as it was read; what of it may be kept comes back, now or with the next `rest`."""
        now = trio.current_time()
        data = self._veil.cover(data, now)
        self._detect(data, now)
        return data

    def rest(self) -> bytes:
        """Output that was held back as it might have been the beginning of a secret."""
        data = self._veil.rest()
        if data:
            self._detect(data, trio.current_time())
        return data

    def happened(self, word: int) -> None:
        """What the terminal tells beside its output."""
        if self._receipt is not None and terminal.is_flush(word):
            self._told(self._receipt.flushed())

    async def watch(self, flush: Callable[[], None]) -> None:
        """Raise, withdraw and expire prompts until the program ends; `flush` records the output that came before a question."""
        self._flush = flush
        await self._lookout.keep(lambda: not self._is_over and not self._process.has_exited)

    def _look(self) -> bool:
        """Do what is to be done now; whether there may be more."""
        now = trio.current_time()
        self._expire(now)
        if self._receipt is not None and now >= self._receipt.next_at:
            self._told(self._receipt.sample(self._fd, now))
        if self._enter is not None:
            if is_time := now >= self._enter.next_at:
                self._finish_answer(self._enter, now)
            return is_time
        evidence = self._evidence(now)
        now = self._drafts.wait_out(now)
        match self._detector.poll(now, evidence):
            case Prompt() as prompt:
                self._flush()
                self._raise(prompt, now)
                return True
            case Withdrawn():
                self._withdraw()
                return True
            case Stalled() as stalled:
                self._flush()
                self._notices.stalled(stalled)
                return True
        if self._asked < self._rules.max_prompts:
            self._drafts.prepare(self._detector, self._witness, self._recorder, now)
        return False

    def foreign_schema(self, prompt_id: str) -> Mapping[str, Any] | None:
        """What the policy asks of the answer's text besides, if that prompt is open: evaluated before `answer_nowait`."""
        is_open = self._binding is not None and self._binding.is_open and self._binding.envelope.prompt_id == prompt_id
        return self._rules.schema if is_open else None

    def answer_nowait(
        self,
        response: Response,
        message: Message,
        principal: str,
        misfits: tuple[Problem, ...] = (),
        push: PushEntry | None = None,
    ) -> Accepted:
        """Type an answer into the program that asked, once; raises `PromptNotOpen`, `AnswerInvalid`, `DeliveryFailed`.

        Where the program takes keys, its Enter follows when the text has been read, whatever becomes of the client (`enter`).

        A plain function: from the first check to the record of the answer nothing else of this process runs, whatever
        becomes of the client. Liveness is checked on both sides of the write, for a write to the pty of a dead program
        succeeds; a program that is gone afterwards has been answered only if it has it (`why_missed`). `misfits`: what the
        policy's own schema says against the payload, which cannot be asked here. `push`: the config that came with the answer.
        """
        binding = self._binding
        if binding is None or binding.envelope.prompt_id != response.prompt_id or not binding.is_open:
            raise self.not_open(response.prompt_id)
        problems = check(response_schema(binding.prompt.form), response.payload) or misfits
        if problems:
            raise self._misfit(binding, problems)
        form, text = binding.prompt.form, response.payload["text"]
        keys = keystrokes(text, canonical=terminal.is_canonical(self._fd), single_key=form.single_key)
        if isinstance(keys, Problem):
            raise self._misfit(binding, (keys,))
        if not self._process.is_alive():
            binding.close()
            raise self.not_open(response.prompt_id)
        if terminal.is_closed(self._fd):
            self._give_up(binding, "The program closed its terminal, so no answer can reach it.")
            raise self.not_open(response.prompt_id)
        was_read = self._witness is not None and self._witness.look().reading is True
        enter = None  # typed with its text, unless there is somebody who takes keys
        if keys.enter == "CR":
            asked = self._detector.view()
            enter = PendingEnter.due(response.prompt_id, text, self._witness, asked=asked, now=trio.current_time())
        data = keys.data if enter is None else text.encode()
        binding.claim()
        if form.kind == "secret":
            message = without_secret(message, response.prompt_id)
            self._veil.add(text, trio.current_time())
        typed = terminal.type_now(self._fd, data)
        if typed == 0 and self._process.is_alive():
            binding.settle(typed=False)
            raise undelivered(response.prompt_id, "the terminal takes no input now", prompt_open=True)
        if typed < len(data):
            terminal.take_back(self._fd)  # or the next answer would be typed on to this one's beginning
            self._give_up(binding, "Only a part of an answer could be typed; what the program had not read was taken back.")
            raise undelivered(response.prompt_id, "only a part could be typed, and was taken back", prompt_open=False)
        if not self._process.is_alive() and (why := why_missed(terminal.unread_bytes(self._fd), was_read=was_read)):
            binding.close()
            raise undelivered(response.prompt_id, why, prompt_open=False)
        binding.settle(typed=True)
        now = self._clock.now()
        self._detector.typed(trio.current_time())
        ticket = self._recorder.record(Answered(now, response.prompt_id, message, principal, keys.enter), push=push)
        self._enter, self._receipt = enter, None
        if enter is None:
            self._receipt = Receipt.of(response.prompt_id, was_read=was_read, now=trio.current_time())
        accepted = self._past.accepted[response.prompt_id] = Accepted(response.prompt_id, message.message_id, now, ticket.fate)
        metrics.ANSWER_WAIT_S.observe(trio.current_time() - binding.asked_at)
        self._lookout.wake()
        return attrs.evolve(accepted, view=ticket.view)

    def reissue_nowait(self, prompt_id: str, principal: str) -> Ticket:
        """Ask the same question again, for the same wait, under a new id; raises `PromptNotOpen`, `UnsupportedOperation`.

        The last question can be asked again while the program waits at it: whether it is open still, or its own limit has
        passed. One event closes the old id and opens the new one, so no answer is between them. How many answers did not fit is
        counted on: it is the same question.
        """
        binding, view = self._binding, self._recorder.view
        stands = view.state is TaskState.INPUT_REQUIRED and view.prompt is not None and view.prompt.prompt_id == prompt_id
        if binding is None or binding.envelope.prompt_id != prompt_id or not stands or self._is_over:
            raise self.not_open(prompt_id)
        is_read = self._witness.look().reading if self._witness is not None else None
        if not self._process.is_alive() or terminal.is_closed(self._fd) or is_read is False:
            raise self.not_open(prompt_id)
        if self._asked >= self._rules.max_prompts:
            why = f"the policy lets this command ask {self._rules.max_prompts} questions, and they are used up"
            raise UnsupportedOperation(f"cannot ask it again: {why}", facts={"prompt_id": prompt_id})
        ticket = self._open(binding.prompt, binding.envelope.prompt, trio.current_time(), reissues=prompt_id, by=principal)
        assert self._binding is not None
        self._past.reissued[prompt_id] = self._binding.envelope.prompt_id
        self._lookout.wake()
        return ticket

    def accepted(self, prompt_id: str) -> Accepted | None:
        """The answer that this prompt got, on record or not yet."""
        return self._past.accepted.get(prompt_id)

    def not_open(self, prompt_id: str) -> PromptNotOpen:
        """The refusal for a prompt that this run does not hold open, with what is known of it."""
        return self._past.not_open(prompt_id)

    def close(self) -> None:
        """No answer can be typed and no question raised any more: the run ends."""
        if self._enter is not None and not self._is_over:
            self._unfinished(self._enter, "the program ended" if not self._process.is_alive() else "the run is ended")
        if self._receipt is not None and not self._is_over:  # a program may read its last answer and end before the next look
            self._told(self._receipt.sample(self._fd, trio.current_time()))
        self._is_over = self._notices.is_over = True
        if self._binding:
            self._binding.close()
        self._lookout.end()

    def _detect(self, data: bytes, now: float) -> None:
        self._detector.feed(data, now)
        if (deadline := self._detector.next_deadline()) is not None:
            self._lookout.bring_forward(deadline)

    def _next_look(self) -> float:
        if self._is_over:
            return float("inf")
        if self._enter is not None:
            return self._enter.next_at
        look_at = self._drafts.next_at(self._detector)
        expires_at = self._binding.expires_at if self._binding and self._binding.is_open else None
        moments = (look_at, expires_at, self._receipt.next_at if self._receipt else None)
        return min((moment for moment in moments if moment is not None), default=float("inf"))

    def _finish_answer(self, enter: PendingEnter, now: float) -> None:
        """Type the Enter, leave it, or wait on; between the look and the write there is no checkpoint."""
        assert self._witness is not None
        if not self._process.is_alive():
            return self._unfinished(enter, "the program ended")
        step = enter.look(self._fd, self._witness, now)
        if step == "wait":
            return None
        if step == "type" and self._detector.asks_another(enter.asked, enter.text):
            step = Withheld("the program took the text without it, and asks something else now")
        if isinstance(step, Withheld):
            return self._unfinished(enter, step.why)
        if terminal.type_now(self._fd, enter_keys(canonical=terminal.is_canonical(self._fd))) == 0:
            return self._unfinished(enter, "the terminal takes no input now")
        self._enter = None
        self._detector.entered(now)
        self._receipt = Receipt.of(enter.prompt_id, was_read=True, now=now)
        return None

    def _unfinished(self, enter: PendingEnter, why: str) -> None:
        """The answer stays as it was typed, without its Enter, and that is told."""
        self._enter = None
        self._notices.unfinished(enter.prompt_id, why)
        self._detector.entered(trio.current_time())
        self._lookout.wake()

    def _give_up(self, binding: Binding, why: str) -> None:
        """This question cannot be answered any more; the line as it stands is no new one."""
        binding.close()
        self._detector.typed(trio.current_time())
        self._close(binding, Closed(self._clock.now(), str(uuid.uuid4()), binding.envelope.prompt_id, "withdrawn", why))
        self._lookout.wake()

    def _misfit(self, binding: Binding, problems: Sequence[Problem]) -> AnswerInvalid:
        """The refusal of an answer that does not fit; one too many closes the prompt and ends the task."""
        self._misfits += 1
        still = "the prompt is still open"
        if self._misfits > self._rules.max_invalid:
            binding.close()
            self._end("no-valid-answer")
            still = f"the prompt is closed: more than {self._rules.max_invalid} answers did not fit"
        count = "1 field does" if len(problems) == 1 else f"{len(problems)} fields do"
        facts = {"prompt_id": binding.envelope.prompt_id}
        return AnswerInvalid(f"{count} not fit; {still}", problems=problems, facts=facts)

    def _raise(self, prompt: Prompt, now: float) -> None:
        text = plain_text(prompt.text)
        if not text or not self._process.is_alive():
            return
        if not self._drafts.may_ask(prompt):
            self._notices.withheld(prompt, text)
            if self._rules.secrets == "fail":
                self._end("secret-asked")
            return
        if self._asked >= self._rules.max_prompts:
            self._end("prompt-limit")
            return
        self._misfits = 0
        self._open(prompt, text, now)

    def _open(self, prompt: Prompt, text: str, now: float, *, reissues: str | None = None, by: str | None = None) -> Ticket:
        self._asked += 1
        asked = self._drafts.asked(prompt, text, now, reissues=reissues, by=by)
        timeout_s = self._rules.timeout_s
        expires_at = None if timeout_s is None or timeout_s >= self._ends_at - now else now + timeout_s
        if self._binding:
            self._binding.close()
        self._binding = Binding(asked.envelope, prompt, now, expires_at)
        return self._recorder.record(asked, then=partial(say, self._recorder.view.task_id, asked, prompt.rule))

    def _evidence(self, now: float) -> Evidence:
        """What the kernel says, asked only when the detector will listen."""
        deadline = self._detector.next_deadline()
        if self._witness is None or deadline is None or now < deadline - self._drafts.early_s or self._detector.puts_off(now):
            return NOTHING_KNOWN
        return self._witness.look()

    def _told(self, word: Word) -> None:
        receipt = self._receipt
        if receipt is None or word == "unread":
            return
        self._receipt = None
        metrics.RECEIPTS.labels(outcome=word).inc()
        if word == "consumed":
            self._notices.consumed(receipt.prompt_id)
        elif word == "discarded":
            self._notices.discarded(receipt.prompt_id)
            self._detector.discarded(trio.current_time())
            self._lookout.wake()

    def _withdraw(self) -> None:
        binding = self._binding
        if binding is None or self._recorder.view.state is not TaskState.INPUT_REQUIRED:
            return
        binding.close()
        text = "The question is no longer on the terminal; the program went on without an answer."
        self._close(binding, Closed(self._clock.now(), str(uuid.uuid4()), binding.envelope.prompt_id, "withdrawn", text))

    def _expire(self, now: float) -> None:
        binding = self._binding
        if binding is None or not binding.is_open or binding.expires_at is None or now < binding.expires_at:
            return
        binding.close()
        text = f"Nobody answered within {self._rules.timeout_s} s; this prompt takes no answer any more."
        self._close(binding, Closed(self._clock.now(), str(uuid.uuid4()), binding.envelope.prompt_id, "expired", text))
        if self._rules.on_expiry == "fail":
            self._end("prompt-expired")

    def _close(self, binding: Binding, event: Closed) -> None:
        self._recorder.record(event)
        _log.info("closed", task=self._recorder.view.task_id, prompt=binding.envelope.prompt_id, closure=event.closure)
