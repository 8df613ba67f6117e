"""Is this prompt still open, and may this answer have it?

A live binding is one open prompt tied to one living process, and is used once. It lives only in memory, so no answer can
outlive a restart. Only the run that owns it changes it; every change is a plain function call, so nothing comes between a
check and the act that relies on it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs

from sandboxd.detect.detector import Prompt
from sandboxd.errors import DeliveryFailed
from sandboxd.hitl.answer import enter_for
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


def facts_of(prompt: Prompt, *, canonical: bool) -> Mapping[str, Any]:
    """What is told of a question beside its envelope. `canonical`: whether the terminal puts lines together now."""
    form = prompt.form
    enter = "none" if form.single_key else enter_for(canonical=canonical)
    facts: dict[str, Any] = {"kind": form.kind, "rule": prompt.rule, "enter": enter, "evidence": dict(prompt.evidence)}
    if form.choices:
        facts["choices"] = [{"text": choice.text, "title": choice.title} for choice in form.choices]
    if form.default is not None:
        facts["default"] = form.default
    return facts


def undelivered(prompt_id: str, why: str, *, prompt_open: bool) -> DeliveryFailed:
    """The refusal of an answer that fits and could not be typed (hitl-prompt/v1: 502)."""
    return DeliveryFailed(f"cannot type the answer: {why}", facts={"prompt_id": prompt_id, "prompt_open": prompt_open})
