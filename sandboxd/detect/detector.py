"""Is the program asking something now?

Pure, and without a clock: output, times and what the kernel says go in, at most one piece of news a `poll` comes out, and
`next_deadline` says when to ask again. A read costs an append; only when the terminal has been silent for a settle time is
the line rendered and judged. Without the kernel's word only an unterminated last line can be a question.

A question is *standing* while the same words stand in the same row at the cursor, or while the kernel says that somebody still
waits: output alone then takes nothing back. Once an answer was typed, that line is answered: its echo, or the unchanged line,
is no new question; the same words in another row are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sandboxd.detect import shape
from sandboxd.detect.evidence import NOTHING_KNOWN, Evidence
from sandboxd.detect.judge import SETTLE_S, Finding, Past, could_ask, judge
from sandboxd.detect.rule import Rule
from sandboxd.detect.terminal import Terminal
from sandboxd.detect.view import View
from sandboxd.hitl.answer import AnswerForm
from sandboxd.values import frozen

_GONE: Final = 25
_GONE_ROW: Final = 5
_GOLDEN: Final = 0.618034  # looks at uneven times never keep step with an animation

_UNREAD: Final = 3  # looks at which nobody reads, until a question is taken for over: a reader may be caught at work
_LOOK_MIN_S: Final = 0.1
_LOOK_MAX_S: Final = 2.0  # how often the kernel is asked about a terminal that stays silent
STALL_S: Final = 2.0  # silence with a reader and no question that we know
_COMEBACK_S: Final = 1.5
# How long output alone puts off a look, where the kernel says who reads. It doubles while nobody does, or 200 programs that
# talk keep the loop busy with looks at them: half of its work, measured. Its most is below the second within which a question
# beside a spinner has to be known (hitl-prompt/v1, CF-4).
_LOOK_BY_S: Final = 0.4
_LOOK_BY_MAX_S: Final = 0.8
_STEADY_S: Final = 0.8  # of a line that is read and stands still while output goes on elsewhere
_REMEMBERED: Final = 32


@frozen
class Prompt:
    """A question has settled: the line as a person sees it, what may be answered, and why we think so."""

    text: str
    form: AnswerForm
    rule: str
    evidence: Mapping[str, Any]


@frozen
class Withdrawn:
    """The question that was raised last is no longer at the live line, or nobody waits for its answer any more."""

    text: str
    rule: str


@frozen
class Stalled:
    """A program waits, and no line of text can be offered: a `menu`, or `undetected`: nothing that we know as a question."""

    text: str
    why: Literal["menu", "undetected"]
    rule: str
    evidence: Mapping[str, Any]


News = Prompt | Withdrawn | Stalled


@frozen
class _Raised:
    prompt: Prompt
    row: int
    line: str
    settle_s: float


class Detector:
    """One run's detector; its owner feeds it every read, and polls it when a deadline has come.

    `witnessed`: the polls will bring the kernel's word, so that a line that has ended, or silence, is worth a look as well.
    `by_shape`: a line that no pack knows may be a question for its looks; False: only the packs and the kernel are asked.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        cols: int = 80,
        height: int = 24,
        witnessed: bool = False,
        by_shape: bool = True,
    ) -> None:
        self.by_shape = by_shape
        self._rules = tuple(rules)
        self._witnessed = witnessed
        self._first_settle_s = min((SETTLE_S, *(rule.settle_s for rule in self._rules)))
        self._terminal = Terminal(cols, height)
        self._last_output_s = 0.0
        self._deadline: float | None = None
        self._raised: _Raised | None = None
        self._answered: View | None = None
        self._answered_text = ""
        self._answers: tuple[str, ...] = ()  # the last few, as of those below
        self._left: tuple[tuple[int, str], ...] = ()  # questions that went away unanswered
        self._was_secret = False
        self._typed_to: Prompt | None = None  # what the last answer was for
        self._again: Prompt | None = None  # a question whose answer was discarded, and that stands nowhere any more
        self._stalled: tuple[int, str] | None = None
        self._steady: tuple[tuple[int, str], float] | None = None  # the line that was read at the last looks, and since when
        self._look_by: float | None = None
        self._put_off_s = _LOOK_BY_S
        self._gone = self._looks = self._unread = 0
        self._judged: tuple[tuple[View, Evidence, Past], Finding | None] | None = (
            None  # the last one: it may be asked for again
        )
        self._made: tuple[Finding, Prompt] | None = None  # likewise

    def feed(self, data: bytes, now: float) -> None:
        """Output as it was read."""
        if not data:
            return
        self._terminal.feed(data)
        self._judged = self._made = None
        self._last_output_s = now
        if self._raised is not None:
            if self._deadline is None or (self._witnessed and self._deadline > now + self._raised.settle_s):
                self._deadline = now + self._raised.settle_s  # not put off by more output: a stale question must not stay open
        elif self._witnessed or self._again is not None or ((self._rules or self.by_shape) and self._is_open(data)):
            self._deadline = now + self._first_settle_s  # the echo of a discarded answer may come after the news of its end
            if self._witnessed:  # not put off for ever: somebody may be waited for beside a spinner
                if self._look_by is None:
                    self._look_by = now + self._put_off_s
                elif self._look_by < self._deadline:
                    self._deadline = self._look_by
        else:
            self._deadline = None  # the line has ended, so nothing stands on it

    def _is_open(self, data: bytes) -> bool:
        """Whether something may stand on the line: it has not ended, or a cursor of the program's own is in one further up."""
        return not data.endswith(b"\n") or self._terminal.hides_cursor

    def typed(self, now: float) -> None:
        """An answer was typed: the line as it stands is answered."""
        view = self._terminal.look()
        self._answered = view
        raised = self._raised
        self._answered_text = raised.prompt.text if raised is not None else view.line.rstrip() or view.above
        self._answers = (*self._answers, shape.without_numbers(self._answered_text))[-_REMEMBERED:]
        self._again, self._typed_to = None, None if raised is None else raised.prompt
        if raised is not None:
            self._was_secret = raised.prompt.form.kind == "secret"
        self._raised = None
        self._deadline = now + self._first_settle_s if self._witnessed else None

    def entered(self, now: float) -> None:
        """The answer's Enter was typed later than its text, or will not be: until now the line was looked at by nobody."""
        self._deadline = now + self._first_settle_s

    def asks_another(self, asked: View, text: str) -> bool:
        """Whether the line is another question now than `asked`, to which that text was typed: further down, and no echo."""
        view = self._terminal.look()
        line, old = view.line.strip(), asked.line.strip()
        is_same = view.row <= asked.row or view.unknown or (old and line.startswith(old)) or (text and text in line)
        return not is_same and shape.is_prompt(view.line)

    def discarded(self, now: float) -> None:
        """What was typed last was thrown away before the program read it: its question stands as it did."""
        self._answered = None
        self._again = self._typed_to
        self._deadline = now + self._first_settle_s

    def next_deadline(self) -> float | None:
        """When to `poll` next; None: nothing is pending."""
        return self._deadline

    def puts_off(self, now: float) -> bool:
        """Whether a `poll` that is due has been put off until silence: the program talks, and left nothing that could ask.

        `poll` does so itself; whoever knows it before need not ask the kernel who reads, which is most of what a look costs.
        """
        silent_at = self._last_output_s + self._first_settle_s
        if self._deadline is None or not self._deadline <= now < silent_at:
            return False
        if self._raised is not None or self._again is not None:
            return False
        if could_ask(self._terminal.look(), self._past()):
            return False
        self._deadline, self._look_by = silent_at, None
        self._put_off_s = min(2 * self._put_off_s, _LOOK_BY_MAX_S)
        return True

    def poll(self, now: float, evidence: Evidence = NOTHING_KNOWN) -> News | None:
        """The next piece of news, if its time has come; `evidence` is what the kernel says at this moment."""
        if self._deadline is None or now < self._deadline or self.puts_off(now):
            return None
        self._deadline = self._look_by = None
        is_unread = evidence.reading is False and now < self._last_output_s + self._first_settle_s
        self._put_off_s = min(2 * self._put_off_s, _LOOK_BY_MAX_S) if is_unread else _LOOK_BY_S
        view = self._terminal.look()
        if self._raised is None:
            return self._ask(view, now, evidence)
        if evidence.says_who_stopped:
            return self._check_reader(self._raised, view, now, evidence)
        return self._check(self._raised, view, now, evidence)

    @property
    def live_line(self) -> str:
        """The live line as a person sees it; empty where it is not known."""
        return self._terminal.look().line.rstrip()

    def view(self) -> View:
        """The live line with what surrounds it."""
        return self._terminal.look()

    def answered(self, start: int, view: View, *, is_read: bool = False) -> bool:
        """Whether the question that begins at `start` of the line has been answered already.

        `is_read`: the kernel says that somebody waits again, so that what was added behind the answered words may ask.
        """
        answered = self._answered
        if answered is None or answered.row != view.row:
            return False
        old = answered.line.rstrip()
        if not old:
            return not view.line.strip() and view.above == answered.above
        if not view.line.startswith(old) or start >= len(old):
            return False
        return not (is_read and shape.is_prompt(view.line[len(old) :]))

    @property
    def is_settling(self) -> bool:
        """Whether the deadline is the end of a silence that has begun, and not a look at what was seen before."""
        is_new = self._raised is None and self._again is None
        return is_new and self._deadline == self._last_output_s + self._first_settle_s

    def foresee(self, evidence: Evidence) -> Prompt | None:
        """What `poll` will ask, the very same value, if nothing comes until the deadline and the kernel still says so then.

        Changes nothing; for a silence that is settling. None: nothing is foreseen.
        """
        view = self._terminal.look()
        finding = self._judge(view, evidence)
        if finding is None or finding.menu or finding.settle_s > self._first_settle_s:
            return None
        if self.answered(finding.start, view, is_read=evidence.reading is True):
            return None
        return self._prompt_of(finding)

    def _judge(self, view: View, evidence: Evidence) -> Finding | None:
        given = view, evidence, self._past()
        if self._judged is None or self._judged[0] != given:
            self._judged = given, judge(self._rules, *given, by_shape=self.by_shape)
        return self._judged[1]

    def _prompt_of(self, finding: Finding) -> Prompt:
        if self._made is None or self._made[0] is not finding:
            self._made = finding, Prompt(finding.text, finding.form, finding.rule, finding.facts)
        return self._made[1]

    def _past(self) -> Past:
        next_row = None if self._answered is None else self._answered.row + 1
        left_row = max((row + 1 for row, _ in self._left), default=0)
        return Past(frozenset(self._answers), next_row, left_row, self._was_secret)

    def _ask(self, view: View, now: float, evidence: Evidence) -> News | None:
        finding = self._judge(view, evidence)
        if finding is not None and self.answered(finding.start, view, is_read=evidence.reading is True):
            finding = None
        again, self._again = self._again, None
        if finding is None and again is not None and evidence.reading is not False:
            self._raised = _Raised(again, view.row, view.line.rstrip(), SETTLE_S)
            self._look_again(now, evidence)
            return again
        if finding is None or finding.menu:
            return self._stall(finding, view, now, evidence)
        settle_s = finding.settle_s
        if evidence.reading is None and (view.row, finding.text) in self._left:
            settle_s = max(settle_s, _COMEBACK_S)
        if now < self._last_output_s + settle_s and not self._is_steady(finding, view, now, evidence):
            self._deadline = self._last_output_s + settle_s
            return None
        prompt = self._prompt_of(finding)
        self._raised = _Raised(prompt, view.row, view.line.rstrip(), settle_s)
        self._judged = self._made = None  # of one that stands for long nothing need be held twice
        self._gone = self._unread = 0
        self._look_again(now, evidence)
        return prompt

    def _is_steady(self, finding: Finding, view: View, now: float, evidence: Evidence) -> bool:
        """Whether a line that is read stands there for long although output goes on elsewhere, as clocks and spinners do."""
        line = (view.row, view.line)
        if not evidence.says_who_reads or not shape.is_prompt(finding.text):
            self._steady = None
        elif self._steady is None or self._steady[0] != line:
            self._steady = (line, now)
        return self._steady is not None and now >= self._steady[1] + _STEADY_S

    def _stall(self, finding: Finding | None, view: View, now: float, evidence: Evidence) -> Stalled | None:
        self._look_again(now, evidence)
        if not evidence.reading or evidence.is_idle:
            return None
        settle_s = STALL_S if finding is None else finding.settle_s
        if now < self._last_output_s + settle_s:
            self._deadline = min(self._last_output_s + settle_s, self._deadline or now + settle_s)
            return None
        text = finding.text if finding is not None else view.line.rstrip() or view.above
        if self._stalled == (view.row, text):
            return None
        self._stalled = (view.row, text)
        if finding is not None:
            return Stalled(text, "menu", finding.rule, finding.facts)
        return Stalled(text, "undetected", "", {"line": view.line.rstrip(), "unknown": view.unknown, **evidence.facts()})

    def _look_again(self, now: float, evidence: Evidence) -> None:
        """Who reads may change in silence, so the kernel is asked again, less and less often."""
        if evidence.reading is not None:
            silent_s = now - self._last_output_s
            self._deadline = now + min(max(silent_s / 2, _LOOK_MIN_S), _LOOK_MAX_S)

    def _check_reader(self, raised: _Raised, view: View, now: float, evidence: Evidence) -> Withdrawn | None:
        self._look_again(now, evidence)
        is_same = (view.row, view.line.rstrip()) == (raised.row, raised.line)
        if not evidence.reading:
            if is_same and self._judge(view, evidence) is not None:
                return None  # what asks without being seen to wait is not taken back for that
            self._unread += 1
            if is_same and self._unread < _UNREAD:
                self._deadline = now + _LOOK_MIN_S
                return None
            return self._withdraw(raised, now)
        self._unread = 0
        if is_same or now < self._last_output_s + SETTLE_S:
            return None
        finding = self._judge(view, evidence)
        if finding is None:
            return None
        if finding.text == raised.prompt.text and not finding.menu:  # drawn anew below other output, and still not answered
            self._raised = attrs.evolve(raised, row=view.row, line=view.line.rstrip())
            return None
        return self._withdraw(raised, now) if self._is_asked_anew(view) else None

    def _is_asked_anew(self, view: View) -> bool:
        return (
            view.full_screen or shape.is_prompt(view.line) or shape.is_bare_prompt(view.line) or bool(shape.menu_reason(view))
        )

    def _check(self, raised: _Raised, view: View, now: float, evidence: Evidence) -> Withdrawn | None:
        silent_s = self._last_output_s + raised.settle_s
        if not view.full_screen and view.row == raised.row and view.line.rstrip() == raised.line:
            self._gone = 0
            self._look_again(now, evidence)
            if now < silent_s:
                self._deadline = silent_s
            return None
        self._gone += 1 if view.row == raised.row and not view.full_screen else _GONE_ROW
        if now < silent_s and self._gone < _GONE:
            self._looks += 1
            self._deadline = min(silent_s, now + raised.settle_s * (0.5 + self._looks * _GOLDEN % 1))
            return None
        return self._withdraw(raised, now)

    def _withdraw(self, raised: _Raised, now: float) -> Withdrawn:
        self._raised = None
        self._left = (*self._left, (raised.row, raised.prompt.text))[-_REMEMBERED:]
        self._deadline = max(now, self._last_output_s + self._first_settle_s)  # the next question may stand there already
        return Withdrawn(raised.prompt.text, raised.prompt.rule)
