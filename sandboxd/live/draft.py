"""What of a question can be made before its silence is over?

All of it: what it will say, and how it goes on record, and the store keeps it. Shortly before the end of the silence the
kernel is asked, and the question is made as it will be if nothing comes and the kernel says the same again; else the draft is
thrown away. So it is where the moment of asking comes late: it says when it was asked.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Final

import trio

from sandboxd.detect.detector import Detector, Prompt
from sandboxd.hitl.answer import options, response_schema
from sandboxd.hitl.envelope import PromptEnvelope, plain_text
from sandboxd.live import terminal
from sandboxd.live.binding import facts_of
from sandboxd.live.clock import Clock
from sandboxd.live.recorder import Recorder
from sandboxd.policy.model import PromptRules
from sandboxd.runner.witness import Witness
from sandboxd.tasks.events import Asked

AHEAD_S: Final = 0.004  # a little more than the making takes, so that all it needs is still in the caches when it is asked
LATE_S: Final = 0.002  # no more than that a draft, which names the end of the silence, is off the moment of asking


class Drafts:
    """Makes the questions of one run. `terminal_fd`: its terminal. `ends_at`: when the run's own time is over."""

    def __init__(self, terminal_fd: int, rules: PromptRules, clock: Clock, ends_at: float) -> None:
        self._fd = terminal_fd
        self._rules = rules
        self._clock = clock
        self._ends_at = ends_at
        self._tried_for: float | None = None  # the end of a silence
        self._draft: tuple[Prompt, Asked] | None = None

    def next_at(self, detector: Detector) -> float | None:
        """When there is something to do for the detector: a draft, or a `poll`."""
        look_at = detector.next_deadline()
        return look_at - AHEAD_S if look_at is not None and self._is_due(detector, look_at) else look_at

    def prepare(self, detector: Detector, witness: Witness | None, recorder: Recorder, now: float) -> None:
        """Make a draft, if it is time, and throw the one away that was for a silence which did not last."""
        look_at = detector.next_deadline()
        if self._draft is not None and look_at != self._tried_for:
            self._draft = None
            recorder.unforesee()
        if look_at is None or now < look_at - AHEAD_S or not self._is_due(detector, look_at):
            return
        self._tried_for, self._draft = look_at, None
        if witness is None or now >= look_at:
            return
        prompt = detector.foresee(witness.look())
        if prompt is not None and self.may_ask(prompt) and (text := plain_text(prompt.text)):
            asked = self._make(prompt, text, look_at)
            self._draft = prompt, asked
            recorder.foresee(asked)

    def may_ask(self, prompt: Prompt) -> bool:
        """Whether the policy lets people be asked this at all."""
        return prompt.form.kind != "secret" or self._rules.secrets == "relay"

    def _is_due(self, detector: Detector, look_at: float) -> bool:
        return self._tried_for != look_at and detector.is_settling

    def asked(self, prompt: Prompt, text: str, now: float, *, reissues: str | None = None, by: str | None = None) -> Asked:
        """The question as it is asked now: the draft, if there is one of that very prompt and for this moment."""
        draft, self._draft = self._draft, None
        is_late = self._tried_for is None or now > self._tried_for + LATE_S
        if draft is not None and draft[0] is prompt and reissues is None and not is_late:
            return draft[1]
        return self._make(prompt, text, now, reissues, by)

    def _make(self, prompt: Prompt, text: str, moment: float, reissues: str | None = None, by: str | None = None) -> Asked:
        at = self._clock.now() + timedelta(seconds=moment - trio.current_time())
        left_s = self._ends_at - moment
        if self._rules.timeout_s is not None:
            left_s = min(left_s, self._rules.timeout_s)
        deadline = at + timedelta(seconds=left_s)  # by the clock as it is now: it may have been set since the command began
        envelope = PromptEnvelope(str(uuid.uuid4()), text, response_schema(prompt.form, self._rules.schema), deadline)
        facts = facts_of(prompt, canonical=terminal.is_canonical(self._fd))
        return Asked(at, str(uuid.uuid4()), envelope, options(prompt.form), facts, reissues, by)
