"""What is told of a run beside its questions?

Waits that no line of text can answer, secrets that are not asked, and what became of an answer: for clients a notice on the
task while it works, for the operator a line in the log and a count.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sandboxd import logs, metrics
from sandboxd.a2a.model import TaskState
from sandboxd.detect.detector import Prompt, Stalled
from sandboxd.hitl.envelope import plain_text
from sandboxd.live.clock import Clock
from sandboxd.live.recorder import Recorder
from sandboxd.tasks.events import Notice, Noticed

_log = logs.logger(__name__)


class Notices:
    """One run's; its owner says when the run is over, and then nothing is told any more."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self.is_over = False

    def withheld(self, prompt: Prompt, text: str) -> None:
        """A secret is asked for, and not of people."""
        metrics.WAITING.labels(why="secret").inc()
        summary = "The program asks for a secret, which its policy does not relay."
        facts = {"kind": "secret", "rule": prompt.rule, "evidence": dict(prompt.evidence)}
        self._tell("secret-withheld", text, summary, facts)

    def stalled(self, stalled: Stalled) -> None:
        """A process waits, and no line of text can be offered."""
        metrics.WAITING.labels(why=stalled.why).inc()
        facts = {"rule": stalled.rule, "evidence": dict(stalled.evidence)}
        if stalled.why == "menu":
            summary = "The program waits for keys, which no line of text can answer."
            self._tell("waiting-menu", plain_text(stalled.text), summary, facts)
            return
        summary = "A process waits for input, and nothing on its terminal is a question that is known here."
        self._tell("waiting-undetected", plain_text(stalled.text), summary, facts)

    def consumed(self, prompt_id: str) -> None:
        """The answer was read."""
        self._tell("answer-consumed", "", "The program has read the answer.", {"prompt_id": prompt_id})

    def discarded(self, prompt_id: str) -> None:
        """The answer was thrown away."""
        summary = "The program threw away the answer before it read it; its question is raised anew."
        self._tell("answer-discarded", "", summary, {"prompt_id": prompt_id})

    def unfinished(self, prompt_id: str, why: str) -> None:
        """The answer stays without its Enter."""
        metrics.RECEIPTS.labels(outcome="unfinished").inc()
        summary = f"The answer's text was typed and its Enter was not: {why}."
        self._tell("answer-unfinished", "", summary, {"prompt_id": prompt_id, "why": why})

    def _tell(self, what: Notice, line: str, summary: str, facts: Mapping[str, Any]) -> None:
        view = self._recorder.view
        log = _log.info if what in ("answer-consumed", "answer-discarded") else _log.warning
        log(what, task=view.task_id, line=line)
        if view.state is TaskState.WORKING and not self.is_over:  # a status that asks is not written over
            self._recorder.record(Noticed(self._clock.now(), str(uuid.uuid4()), what, line, summary, facts))
