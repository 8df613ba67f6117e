"""What does a task ask, and may it be asked here?

Approval workflow, Canonical transport boundary: a prompt is taken only from an input-required status whose message carries a
valid envelope. Anything else that waits for input is shown as it is, cannot be answered here and counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandboxd.a2a.canonical import sha256_hex
from sandboxd.a2a.model import TaskState
from sandboxd.cockpit.reading import Seen
from sandboxd.hitl.envelope import PromptEnvelope, plain_text
from sandboxd.hitl.received import envelope_in, parse_envelope
from sandboxd.values import frozen

_NO_ENVELOPE: Final = "it asks without a hitl-prompt/v1 envelope, so it can only be answered where it runs"
_WHY_MAX: Final = 8


@frozen
class Asks:
    """A valid prompt: the envelope as it came, and understood."""

    raw: Mapping[str, Any]
    envelope: PromptEnvelope
    digest: str


@frozen
class AsksOtherwise:
    """Something that waits for input, and cannot be asked here: `observed`, `malformed` or, for now, `postponed`, and why."""

    kind: str
    digest: str
    text: str
    why: str


def read_question(seen: Seen) -> Asks | AsksOtherwise | None:
    """The question of a task; None: it asks none."""
    if seen.state is not TaskState.INPUT_REQUIRED:
        return None
    raw = envelope_in(seen.message)
    if raw is None:
        message_id = str(seen.message.get("messageId") or "")
        return AsksOtherwise("observed", sha256_hex(["observed", message_id, seen.text]), plain_text(seen.text), _NO_ENVELOPE)
    envelope = parse_envelope(raw)
    if isinstance(envelope, PromptEnvelope):
        return Asks(raw, envelope, sha256_hex(raw))
    why = "the envelope is malformed: " + "; ".join(map(str, envelope[:_WHY_MAX]))
    # By its reasons and words: a malformed envelope may have no canonical spelling of its own.
    return AsksOtherwise("malformed", sha256_hex(["malformed", why, repr(seen.text)]), plain_text(seen.text), why)


def postponed(asks: Asks, why: str) -> AsksOtherwise:
    """The same, where there is no room for it."""
    return AsksOtherwise("postponed", sha256_hex(["postponed", asks.digest]), plain_text(asks.envelope.prompt), why)


def not_its_own(asks: Asks, seen: Seen) -> AsksOtherwise:
    """The same, where another task of its host has asked under that prompt id before: an answer would be for which of them?"""
    why = f"the envelope is malformed: prompt_id: {asks.envelope.prompt_id} is another task's"
    return AsksOtherwise("malformed", sha256_hex(["malformed", why, repr(seen.text)]), plain_text(seen.text), why)
