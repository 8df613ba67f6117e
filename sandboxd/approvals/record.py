"""What is known about one question that people are asked?

`Approval` is the whole of it: the fold of its events, kept in one row. The words of `status` and `step` are those of the
approval workflow, State model; `phase` is what the machine does about it. All times are aware UTC datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import attrs

from sandboxd.a2a.canonical import canonical
from sandboxd.approvals.routing import Principal, Routing
from sandboxd.values import frozen

EndStatus = Literal["responded", "expired", "cancelled", "delivery-failed", "conflict"]
Status = Literal["pending", "invalid", "responded", "expired", "cancelled", "delivery-failed", "conflict"]
# open: answers are collected · delivering: one attempt is under way · backoff: the next one has a time ·
# reconcile: what the asker took is being found out · closed: final
Phase = Literal["open", "delivering", "backoff", "reconcile", "closed"]
StepState = Literal["running", "awaiting-approval", "paused", "failed", "cancelled"]
ExpiredStep = Literal["paused", "failed", "cancelled"]
# public: may be shown · redacted: stands on disk as long as it has to be delivered, and is never shown · secret: never on disk
PayloadClass = Literal["public", "redacted", "secret"]

COMMENTARY: Final = ("comment", "note", "reason")


@frozen
class Payload:
    """An answer that fits. `body`: its canonical JSON; of a secret the name under which the shell keeps it in memory.

    `sense` is what has to be equal for two answers to concur. Neither is ever printed. `body` empty: no longer there.
    """

    body: str = attrs.field(repr=lambda body: f"<{len(body)} characters>")
    sense: str = attrs.field(repr=False)
    is_secret: bool = False


def payload(value: Mapping[str, Any], *, commentary: tuple[str, ...] = COMMENTARY) -> Payload:
    """The payload of an answer that is no secret; members called as `commentary` says do not count for concurring."""
    sense = {name: member for name, member in value.items() if name not in commentary}
    return Payload(canonical(value).decode(), canonical(sense).decode())


@frozen
class Question:
    """The prompt as it came: its envelope's `digest`, `patterns` as they stand there (None: none), the asker's own deadline."""

    prompt_id: str
    digest: str
    patterns: tuple[str, ...] | None = None
    deadline: datetime | None = None


@frozen
class Escalation:
    """Who else is told, and how long after the question came. Told, not asked: eligibility never changes."""

    after: timedelta
    route: str


@frozen
class Terms:
    """By which rules this question is decided; fixed when it comes, whatever the policy says later.

    `narrowed`: what the cockpit's policy asks for beside the envelope. `barred`: persons who may not answer (who started the
    mission, say). `patience`: how long a question may stand. `schema_budget`: how many answers may not fit, here and at the
    asker together. `tries_max`: attempts of one answer, and of each inquiry. `margin`: what delivery needs of the asker's time.
    """

    narrowed: Routing | None = None
    barred: frozenset[str] = frozenset()
    patience: timedelta = timedelta(hours=24)
    on_expiry: ExpiredStep = "paused"
    schema_budget: int = 10
    tries_max: int = 5
    backoff: timedelta = timedelta(seconds=2)
    backoff_max: timedelta = timedelta(minutes=1)
    margin: timedelta = timedelta(seconds=2)
    escalations: tuple[Escalation, ...] = ()
    payload_class: PayloadClass = "public"


@frozen
class Vote:
    """What one person said, by which account and channel; a later one of the same person replaces it."""

    principal: Principal
    channel: str
    payload: Payload
    at: datetime


@frozen
class Verdict:
    """What the votes have fixed: the payload and the message id that every attempt carries, and who stands behind it."""

    message_id: str
    payload: Payload
    persons: tuple[str, ...]
    at: datetime


@frozen
class Closing:
    """How the record will close once it is certain that no answer of ours can still be taken.

    `may_cancel`: whether the asker's task may be cancelled to make it certain; else only the question may be retired.
    """

    status: EndStatus
    step: StepState
    reason: str
    may_cancel: bool


@frozen
class Approval:
    """One prompt record and its step. `rev` grows with every change.

    `verdicts` has one for each time that the votes fixed something, the last one is the current one; any of them may turn out
    to be what the asker took. `seed` makes message ids that no other client can hold. `is_decided`: the last
    verdict stands; after a refusal it does not, and votes are collected anew. `held`: the machine has asked often
    enough, and a person has to say how it goes on. `moved`: how the asker's task went on, as it was
    last heard. `accepted`: the message id that the asker took.
    """

    question: Question
    terms: Terms
    seed: str
    received_at: datetime
    closes_at: datetime
    closes_because: str
    routings: tuple[Routing, ...]
    reminders: tuple[datetime, ...] = ()
    rev: int = 1
    status: Status = "pending"
    phase: Phase = "open"
    step: StepState = "awaiting-approval"
    reason: str = ""
    votes: tuple[Vote, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    is_decided: bool = False
    misfits: int = 0
    tries: int = 0
    inquiries: int = 0
    retry_at: datetime | None = None
    closing: Closing | None = None
    is_fenced: bool = False
    held: bool = False
    moved: str = ""
    reminded: int = 0
    escalated: int = 0
    accepted: str | None = None
    closed_at: datetime | None = None

    @property
    def verdict(self) -> Verdict | None:
        """What is being delivered, or was last."""
        return self.verdicts[-1] if self.verdicts else None

    @property
    def standing_verdict(self) -> Verdict | None:
        """The one that the asker took, or that stands; one that was refused fixes nothing any more."""
        taken = next((verdict for verdict in self.verdicts if self.accepted == verdict.message_id), None)
        return taken or (self.verdict if self.is_decided else None)

    @property
    def votes_needed(self) -> int:
        """How many persons must say the same."""
        return max(routing.votes for routing in self.routings)

    @property
    def dead_end(self) -> str:
        """Why nobody can answer it; empty: somebody can."""
        return next((why for routing in self.routings if (why := routing.dead_end)), "")

    def is_eligible(self, principal: Principal) -> bool:
        """Whether an answer of this principal counts."""
        return not self.why_not(principal)

    def why_not(self, principal: Principal) -> str:
        """Why an answer of this principal does not count; empty: it does."""
        if not principal.may_answer:
            return f"{principal.name} may look, and answer nothing"
        if principal.person in self.terms.barred:
            return f"the rules bar {principal.person} from it, as they can bar people from the questions of their own mission"
        refusing = next((routing for routing in self.routings if not routing.allows(principal)), None)
        if refusing is None:
            return ""
        if not refusing.named:
            return f"nobody may answer it: {refusing.dead_end}"
        return f"{principal.name} is none of those who may answer it: {', '.join(sorted(refusing.named))}"

    def is_ours(self, message_id: str | None) -> bool:
        """Whether that message is one of this record's own."""
        return message_id is not None and any(verdict.message_id == message_id for verdict in self.verdicts)
