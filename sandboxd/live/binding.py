"""Is this prompt still open, and may this answer have it?

A live binding is one open prompt tied to one living process, and is used once. It lives only in memory, so no answer can
outlive a restart. Only the run that owns it changes it; every change is a plain function call, so nothing comes between a
check and the act that relies on it.
"""

from __future__ import annotations

import enum

import attrs

from sandboxd.detect.detector import Prompt
from sandboxd.hitl.envelope import PromptEnvelope


class BindingState(enum.Enum):
    """`open → claimed → answered`; a failed delivery goes back to open, everything else that ends the wait to closed."""

    OPEN = "open"
    CLAIMED = "claimed"
    ANSWERED = "answered"
    CLOSED = "closed"


@attrs.define
class Binding:
    """`expires_at`: monotonic seconds at which the prompt's own limit passes, None when only the command's counts."""

    envelope: PromptEnvelope
    prompt: Prompt
    asked_at: float
    expires_at: float | None
    state: BindingState = BindingState.OPEN

    @property
    def is_open(self) -> bool:
        """Whether an answer can still claim it."""
        return self.state is BindingState.OPEN

    def claim(self) -> None:
        """Take the one use of this binding; the caller types next, with no checkpoint between."""
        assert self.state is BindingState.OPEN
        self.state = BindingState.CLAIMED

    def settle(self, *, typed: bool) -> None:
        """The claim ended: typed for good, or nothing was typed and the prompt is open again."""
        assert self.state is BindingState.CLAIMED
        self.state = BindingState.ANSWERED if typed else BindingState.OPEN

    def close(self) -> None:
        """No answer can have it any more."""
        if self.state is not BindingState.ANSWERED:
            self.state = BindingState.CLOSED
