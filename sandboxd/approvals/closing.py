"""How does a question end, and when may it be said to have?

Answered: as soon as the asker is known to have taken one of our messages. Without an answer: at once where nothing ever left;
otherwise behind a fence, since a packet that was sent may still arrive. Where the fence cannot be made, or what was taken
cannot be found out, the record stays in `reconcile` and says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import attrs

from sandboxd.approvals.events import Alert, Decided, Effect, Fence, Inquire, Mark, Outcome, Tell
from sandboxd.approvals.record import Approval, Closing, Payload, Verdict, Vote
from sandboxd.approvals.timing import backoff

Said = TypeVar("Said", Vote, Verdict)


def respond(approval: Approval, message_id: str, now: datetime) -> Decided:
    """The asker took that message of ours."""
    late = "" if now < approval.closes_at else "it was delivered after the closing time, and fixed before"
    return _close(approval, Closing("responded", "running", late, may_cancel=False), "responded", now, accepted=message_id)


def end_unanswered(approval: Approval, closing: Closing, now: datetime, outcome: Outcome) -> Decided:
    """Begin to close without an answer; the record closes here only if nothing of ours can be on its way."""
    if not approval.verdicts and not closing.may_cancel:
        return _close(approval, closing, outcome, now)
    begun = attrs.evolve(
        approval, phase="reconcile", closing=closing, reason=closing.reason, retry_at=None, inquiries=0, held=False
    )
    if closing.status in ("expired", "delivery-failed"):  # that much is certain already; a cancel is not until it holds
        begun = attrs.evolve(begun, status=closing.status, step=closing.step)
    return Decided(begun, (pursue(begun),), (Mark(outcome, closing.reason),))


def close_unanswered(approval: Approval, why: str, now: datetime, *, has_failed: bool = False) -> Decided:
    """None of our messages was taken and none ever will be: the record closes as what it was to close as."""
    if approval.closing is not None:
        return _close(approval, approval.closing, approval.closing.status, now)
    lost = Closing("conflict", "failed" if has_failed else "paused", why, may_cancel=False)
    return _close(approval, lost, "withdrawn" if has_failed or not approval.verdicts else "conflict", now)


def settle(approval: Approval, why: str, now: datetime) -> Decided:
    """A person's word ends it; the record says that it is no more than that."""
    return _close(approval, Closing("conflict", "paused", why, may_cancel=False), "settled", now)


def pursue(approval: Approval) -> Effect:
    """What brings a record in `reconcile` further: the fence first, for what is learnt behind it is final."""
    if approval.closing is not None and not approval.is_fenced:
        return Fence(approval.closing.may_cancel)
    return Inquire()


def ask_again_later(approval: Approval, why: str, now: datetime) -> Decided:
    """Try the same once more after a while; a record that was asked about often enough is held, and somebody told."""
    inquiries = approval.inquiries + 1
    if inquiries >= approval.terms.tries_max:
        return hold(attrs.evolve(approval, inquiries=inquiries), why)
    at = now + backoff(inquiries, approval.terms)
    return Decided(attrs.evolve(approval, inquiries=inquiries, retry_at=at), marks=(Mark("reconciling", why),))


def hold(approval: Approval, why: str) -> Decided:
    """Stop; only a person, or the asker's task moving on, brings it further."""
    step = "paused" if approval.step == "awaiting-approval" else approval.step
    held = attrs.evolve(approval, step=step, reason=why, retry_at=None, held=True)
    return Decided(held, (Alert(why),), (Mark("held", why),))


def _close(approval: Approval, closing: Closing, outcome: Outcome, now: datetime, *, accepted: str | None = None) -> Decided:
    closed = attrs.evolve(
        approval,
        status=closing.status,
        phase="closed",
        step=closing.step,
        reason=closing.reason,
        votes=tuple(_without_payload(vote, approval) for vote in approval.votes),
        verdicts=tuple(_without_payload(verdict, approval) for verdict in approval.verdicts),
        retry_at=None,
        closing=None,
        held=False,
        accepted=accepted,
        closed_at=now,
    )
    effects: tuple[Effect, ...] = (Tell("closed"),)
    if closing.step in ("paused", "failed"):
        effects += (Alert(closing.reason),)
    return Decided(closed, effects, (Mark(outcome, closing.reason),))


def _without_payload(said: Said, approval: Approval) -> Said:
    if approval.terms.payload_class == "public":
        return said
    return attrs.evolve(said, payload=Payload("", "", said.payload.is_secret))
