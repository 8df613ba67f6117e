"""What can happen to a question, and what is to be done about it?

Events come from outside and carry everything that the reducer may know; effects are done after the new record is on disk, at
least once, and their outcomes come back as events.
"""

from __future__ import annotations

from typing import Literal

from sandboxd.approvals.record import Approval, Payload, Question, Terms
from sandboxd.approvals.routing import Principal
from sandboxd.errors import Problem
from sandboxd.values import frozen

# ── events ──


@frozen
class Received:
    """A valid envelope came, for the first time or again. `seed`: fresh randomness, of which only the first is kept."""

    question: Question
    terms: Terms
    seed: str


@frozen
class Voted:
    """Somebody answered. `problems`: what a validator, ours and bounded, found wrong with the payload.

    `unjudged`: why it could not be said whether the payload fits; empty: it could. `note`: what they wrote beside it, for the
    audit alone.
    """

    principal: Principal
    channel: str
    payload: Payload
    problems: tuple[Problem, ...] = ()
    unjudged: str = ""
    note: str = ""


@frozen
class Taken:
    """The asker accepted that message (200, or its like)."""

    message_id: str


@frozen
class Misfit:
    """The asker says that the payload does not fit (422)."""

    message_id: str
    why: str


@frozen
class Contested:
    """The asker says that the prompt is unknown or answered (409); `accepted`: by which message, where it tells."""

    message_id: str
    accepted: str | None
    why: str


@frozen
class Undelivered:
    """An attempt came to nothing that is known. `is_final`: the asker refused it for a reason that another try cannot mend."""

    message_id: str
    why: str
    is_final: bool = False


Finding = Literal["accepted", "open", "lost", "unknown"]


@frozen
class Learnt:
    """What an inquiry found: `message_id` was taken · open: nothing was, yet · lost: none of ours ever will be."""

    finding: Finding
    message_id: str | None = None
    why: str = ""


@frozen
class Fenced:
    """Whether the asker will refuse every late packet from now on."""

    holds: bool
    why: str = ""


@frozen
class Moved:
    """The asker's task no longer asks this. `has_failed`: it ended in failure."""

    why: str
    has_failed: bool = False


@frozen
class CancelAsked:
    """A person wants the question, and the task that asks it, to end."""

    principal: Principal
    channel: str
    reason: str


@frozen
class ResumeAsked:
    """A person wants the machine to go on where it has stopped asking."""

    principal: Principal
    channel: str


@frozen
class Settled:
    """A person takes it on themselves to close a record whose truth cannot be found out."""

    principal: Principal
    channel: str
    reason: str


@frozen
class Ticked:
    """It may be time for something."""


@frozen
class Restarted:
    """The shell has lost everything that was not on disk: attempts under way, secrets."""


Event = (
    Received
    | Voted
    | Taken
    | Misfit
    | Contested
    | Undelivered
    | Learnt
    | Fenced
    | Moved
    | CancelAsked
    | ResumeAsked
    | Settled
    | Ticked
    | Restarted
)

# ── effects ──


@frozen
class Ask:
    """Find somebody who answers: the resolvers first, then people."""


@frozen
class Deliver:
    """Send this answer, in exactly this message."""

    message_id: str
    payload: Payload


@frozen
class Inquire:
    """Find out what the asker took."""


@frozen
class Fence:
    """Make the asker refuse whatever of ours is still on its way: retire the question, or cancel its task where that may be."""

    may_cancel: bool


@frozen
class Tell:
    """Tell people: of a reminder, an escalation (by `route`), an answer that did not fit, the end."""

    what: Literal["reminder", "escalation", "invalid", "closed"]
    route: str = ""


@frozen
class Alert:
    """Tell whoever operates this that it needs them."""

    why: str


Effect = Ask | Deliver | Inquire | Fence | Tell | Alert

Outcome = Literal[
    "asked",  # a new question
    "repeated",  # the same envelope again
    "counted",  # a vote, not the last one that is needed
    "decided",  # the vote that fixed the answer
    "invalid",  # it does not fit
    "unjudged",  # whether it fits is not known, so it is not taken; that is our fault, and spends nothing
    "not-eligible",
    "closed",  # too late: answered, expired, cancelled, or its answer is under way
    "responded",  # the asker took our answer
    "retrying",
    "delivery-failed",
    "conflict",
    "reopened",  # the answer is no longer there and was not taken: asked anew
    "reconciling",
    "expired",
    "cancelling",
    "cancelled",
    "withdrawn",  # the asker went on without us
    "settled",
    "resumed",
    "held",  # nothing more is done without a person
    "reminded",
    "escalated",
    "nothing",  # it changed nothing
]


@frozen
class Mark:
    """One thing that came of an event, for the audit and for whoever caused it."""

    outcome: Outcome
    why: str = ""


@frozen
class Decided:
    """What comes of one event; the last mark is the answer to whoever caused it."""

    approval: Approval
    effects: tuple[Effect, ...] = ()
    marks: tuple[Mark, ...] = ()

    def then(self, after: Decided) -> Decided:
        """Both, one after the other."""
        return Decided(after.approval, self.effects + after.effects, self.marks + after.marks)
