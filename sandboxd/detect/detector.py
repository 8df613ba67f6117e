"""Is the program asking something now?

Pure, and without a clock: output and times go in, at most one piece of news a `poll` comes out, and `next_deadline` says when
to ask again. A read costs an append; only when the terminal has been silent for a rule's settle time is the line rendered
and matched. Only an unterminated last line can be a question.

A question is *standing* while the same words stand in the same row at the cursor. Once an answer was typed, that line is
answered: its echo, or the unchanged line, is no new question; the same words in another row are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sandboxd.detect.rule import Fit, Rule, fit
from sandboxd.detect.terminal import Terminal, View
from sandboxd.hitl.answer import AnswerForm

# While output goes on, a look may catch a frame that is half-drawn. A question whose row the cursor has left is taken for gone
# after a few looks, one whose row is being redrawn only after many; in silence one look is enough.
_GONE: Final = 25
_GONE_ROW: Final = 5
_GOLDEN: Final = 0.618034  # looks at uneven times never keep step with an animation


@attrs.frozen
class Prompt:
    """A question has settled: the line as a person sees it, what may be answered, and why we think so."""

    text: str
    form: AnswerForm
    rule: str
    evidence: Mapping[str, Any]


@attrs.frozen
class Withdrawn:
    """The question that was raised last is no longer at the live line."""

    text: str
    rule: str


@attrs.frozen
class _Raised:
    prompt: Prompt
    row: int
    line: str
    settle_s: float


class Detector:
    """One run's detector; its owner feeds it every read, and polls it when a deadline has come."""

    def __init__(self, rules: Sequence[Rule], *, cols: int = 80, height: int = 24) -> None:
        self._rules = tuple(rules)
        self._first_settle_s = min((rule.settle_s for rule in self._rules), default=0.0)
        self._terminal = Terminal(cols, height)
        self._last_output_s = 0.0
        self._deadline: float | None = None
        self._raised: _Raised | None = None
        self._answered: View | None = None
        self._gone = self._looks = 0

    def feed(self, data: bytes, now: float) -> None:
        """Output as it was read."""
        if not data:
            return
        self._terminal.feed(data)
        self._last_output_s = now
        if self._raised is not None:
            if self._deadline is None:  # not put off by more output: an endless stream must not keep a stale question open
                self._deadline = now + self._raised.settle_s
        elif self._rules and not data.endswith(b"\n"):
            self._deadline = now + self._first_settle_s
        else:
            self._deadline = None  # the line has ended, so nothing stands on it

    def typed(self, now: float) -> None:
        """An answer was typed: the line as it stands is answered."""
        del now  # no rule needs it; the owner need not know that
        self._answered = self._terminal.look()
        self._raised = None
        self._deadline = None

    def next_deadline(self) -> float | None:
        """When to `poll` next; None: nothing is pending."""
        return self._deadline

    def poll(self, now: float) -> Prompt | Withdrawn | None:
        """The next piece of news, if its time has come."""
        if self._deadline is None or now < self._deadline:
            return None
        self._deadline = None
        view = self._terminal.look()
        return self._ask(view, now) if self._raised is None else self._check(self._raised, view, now)

    @property
    def live_line(self) -> str:
        """The live line as a person sees it; empty where it is not known."""
        return self._terminal.look().line.rstrip()

    def view(self) -> View:
        """The live line with what surrounds it."""
        return self._terminal.look()

    def answered(self, found: Fit, view: View) -> bool:
        """Whether the question that was found has been answered already."""
        answered = self._answered
        if answered is None or answered.row != view.row or not answered.line.strip():
            return False
        old = answered.line.rstrip()
        return view.line.startswith(old) and found.start < len(old)

    def _ask(self, view: View, now: float) -> Prompt | None:
        found = fit(self._rules, view)
        if found is None or self.answered(found, view):
            return None
        settled_s = self._last_output_s + found.rule.settle_s
        if now < settled_s:
            self._deadline = settled_s
            return None
        prompt = Prompt(view.line.rstrip(), found.form, found.rule.id, found.evidence)
        self._raised = _Raised(prompt, view.row, view.line.rstrip(), found.rule.settle_s)
        self._gone = 0
        return prompt

    def _check(self, raised: _Raised, view: View, now: float) -> Withdrawn | None:
        silent_s = self._last_output_s + raised.settle_s
        if not view.unknown and view.row == raised.row and view.line.rstrip() == raised.line:
            self._gone = 0
            if now < silent_s:
                self._deadline = silent_s
            return None
        self._gone += 1 if view.row == raised.row and not view.unknown else _GONE_ROW
        if now < silent_s and self._gone < _GONE:
            self._looks += 1
            self._deadline = min(silent_s, now + raised.settle_s * (0.5 + self._looks * _GOLDEN % 1))
            return None
        self._raised = None
        self._deadline = max(now, self._last_output_s + self._first_settle_s)  # the next question may stand there already
        return Withdrawn(raised.prompt.text, raised.prompt.rule)
