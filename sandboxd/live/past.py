"""What became of the prompts of a run that are not open any more?

As long as the run lives this is told from memory, which may be ahead of the record. Both tables are bounded by the number of
prompts that a run may have.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import attrs

from sandboxd.a2a.extensions import REISSUED_AS
from sandboxd.a2a.wire import rfc3339
from sandboxd.errors import PromptNotOpen
from sandboxd.live.recorder import Fate
from sandboxd.tasks.view import TaskView
from sandboxd.values import frozen


@frozen
class Accepted:
    """The terminal took an answer; `fate` tells when that is on record. Whether the program read it is not known.

    `view` is the task right after it, for whoever sent it: with its history it is too large to be kept of every answer.
    """

    prompt_id: str
    message_id: str
    at: datetime
    fate: Fate
    view: TaskView | None = None


@attrs.define
class Past:
    """`accepted`: by prompt id. `reissued`: the id of an old prompt, and under which one its question was asked again."""

    accepted: dict[str, Accepted] = attrs.field(factory=dict)
    reissued: dict[str, str] = attrs.field(factory=dict)

    def not_open(self, prompt_id: str) -> PromptNotOpen:
        """The refusal for a prompt that is not open, with what is known of it."""
        facts: dict[str, Any] = {"prompt_id": prompt_id}
        if accepted := self.accepted.get(prompt_id):
            facts["accepted_message_id"] = accepted.message_id
            return PromptNotOpen(f"the prompt was answered at {rfc3339(accepted.at)}", facts=facts)
        if later := self.reissued.get(prompt_id):
            facts[REISSUED_AS] = later
            return PromptNotOpen("its question was asked again, under another id", facts=facts)
        return PromptNotOpen("no such prompt is open on this task", facts=facts)
