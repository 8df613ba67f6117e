"""What follows from what the asker says about our answer, and from what it does not say?

The three rules that a model search proved necessary: an answer of our own is recognised, by the message id that the asker
names; a cancel ends in finding out what became of a delivery under way; and nothing closes without an answer before the asker
surely refuses what may still arrive (`closing`).
"""

from __future__ import annotations

from datetime import datetime

import attrs

from sandboxd.approvals.closing import Said, ask_again_later, close_unanswered, end_unanswered, hold, pursue, respond
from sandboxd.approvals.events import (
    Alert,
    Contested,
    Decided,
    Deliver,
    Fenced,
    Inquire,
    Learnt,
    Mark,
    Misfit,
    Moved,
    Taken,
    Tell,
    Undelivered,
)
from sandboxd.approvals.record import Approval, Closing, Payload
from sandboxd.approvals.timing import backoff


def taken(approval: Approval, event: Taken, now: datetime) -> Decided:
    """200, or its like."""
    return respond(approval, event.message_id, now) if approval.is_ours(event.message_id) else nothing(approval)


def misfit(approval: Approval, event: Misfit, now: datetime) -> Decided:
    """422: the prompt is open still, and the people are asked again, as often as the budget has it."""
    if not _is_current(approval, event.message_id):
        return nothing(approval)
    if approval.closing is not None:
        return nothing(approval)  # its fence is under way
    counted = attrs.evolve(approval, misfits=approval.misfits + 1)
    if counted.misfits >= approval.terms.schema_budget:
        return end_unanswered(counted, out_of_budget(counted), now, "delivery-failed")
    return _collect_again(counted, f"the asker says that the answer does not fit: {event.why}", now, status_invalid=True)


def contested(approval: Approval, event: Contested, now: datetime) -> Decided:
    """409: our own answer after all, somebody else's, or nobody knows."""
    if approval.is_ours(event.accepted):
        assert event.accepted is not None
        return respond(approval, event.accepted, now)
    if not _is_current(approval, event.message_id):
        return nothing(approval)
    if approval.closing is not None and not (approval.is_fenced and event.accepted):
        return nothing(approval)  # its fence is under way, and may have to stop the task all the same
    if event.accepted is not None:  # one answer a prompt: ours never will be taken
        return close_unanswered(approval, f"the asker took another answer, message {event.accepted}", now)
    doubted = attrs.evolve(approval, status="conflict", phase="reconcile", step="paused", reason=event.why, inquiries=0)
    return Decided(doubted, (Inquire(),), (Mark("conflict", event.why),))


def undelivered(approval: Approval, event: Undelivered, now: datetime) -> Decided:
    """No reply, or none that says anything: the same message again, as often as the budget has it; then it is found out."""
    if approval.phase != "delivering" or not _is_current(approval, event.message_id):
        return nothing(approval)
    failed = attrs.evolve(approval, status="delivery-failed", reason=event.why)
    if event.is_final or approval.tries >= approval.terms.tries_max:
        lost = attrs.evolve(failed, phase="reconcile", step="paused", retry_at=None, inquiries=0)
        return Decided(lost, (Inquire(), Alert(event.why)), (Mark("delivery-failed", event.why),))
    later = attrs.evolve(failed, phase="backoff", retry_at=now + backoff(approval.tries, approval.terms))
    return Decided(later, marks=(Mark("retrying", event.why),))


def learnt(approval: Approval, event: Learnt, now: datetime) -> Decided:
    """What the asker's own record says."""
    if event.finding == "accepted" and approval.is_ours(event.message_id):
        assert event.message_id is not None
        return respond(approval, event.message_id, now)
    if approval.phase != "reconcile" or (approval.held and event.finding != "lost"):
        return nothing(approval)
    must_stop = approval.closing is not None and approval.closing.may_cancel and not approval.is_fenced
    if must_stop and event.finding in ("lost", "open"):
        return Decided(approval, (pursue(approval),), (Mark("reconciling", event.why),))
    if event.finding == "lost":
        return close_unanswered(approval, event.why or "the asker went on without our answer", now)
    if event.finding == "unknown" or approval.closing is not None:  # what is open behind a fence was not fenced
        return ask_again_later(approval, event.why or "whether the asker can still take the answer is not known", now)
    return _deliver_again(approval, now)


def fenced(approval: Approval, event: Fenced, now: datetime) -> Decided:
    """The fence holds, or it could not be made."""
    if approval.phase != "reconcile" or approval.closing is None or approval.is_fenced:
        return nothing(approval)
    if not event.holds and not approval.closing.may_cancel:
        return Decided(approval, (Inquire(),), (Mark("reconciling", event.why),))  # perhaps it moved on by itself
    if not event.holds:
        return ask_again_later(approval, event.why or "the asker cannot be made to refuse late answers", now)
    behind = attrs.evolve(approval, is_fenced=True, inquiries=0, held=False)
    if not behind.verdicts:
        return close_unanswered(behind, event.why, now)
    return Decided(behind, (Inquire(),), (Mark("reconciling", "no late answer will be taken any more"),))


def moved(approval: Approval, event: Moved, now: datetime) -> Decided:
    """The asker's task went on, ended, or asks something else."""
    if approval.phase == "delivering":  # most likely our own answer; its reply, or its lack, decides
        return nothing(approval)
    if approval.phase == "open" and not approval.verdicts:
        return close_unanswered(approval, f"the asker is gone: {event.why}", now, has_failed=event.has_failed)
    moved = f"{event.why}{', in failure' if event.has_failed else ''}"
    if approval.phase == "reconcile" and approval.moved == moved:  # told again with every look: it is known
        return nothing(approval)
    looking = attrs.evolve(approval, phase="reconcile", retry_at=None, inquiries=0, held=False, moved=moved)
    must_stop = approval.closing is not None and approval.closing.may_cancel
    return Decided(looking, (pursue(looking) if must_stop else Inquire(),), (Mark("reconciling", event.why),))


def restarted(approval: Approval) -> Decided:
    """What was under way may have arrived, so it is found out before anything is sent again. Secrets are gone."""
    known = attrs.evolve(
        approval,
        votes=tuple(vote for vote in approval.votes if not vote.payload.is_secret)
        if approval.phase == "open"
        else approval.votes,
        verdicts=tuple(_without_secret(verdict) for verdict in approval.verdicts),
    )
    if approval.phase in ("delivering", "backoff"):
        known = attrs.evolve(known, phase="reconcile", retry_at=None, inquiries=0)
    if known.phase == "reconcile" and not known.held and known.retry_at is None:
        return Decided(known, (pursue(known),), (Mark("reconciling", "the controller was restarted"),))
    if len(known.votes) < len(approval.votes):
        return Decided(known, (Tell("invalid"),), (Mark("reopened", "an answer is a secret, and was not kept"),))
    return Decided(known, marks=(Mark("nothing"),))


def out_of_budget(approval: Approval) -> Closing:
    """How a question ends that nobody answers as it should be answered."""
    why = f"{approval.misfits} answers did not fit, and no more are taken"
    return Closing("delivery-failed", "paused", why, may_cancel=False)


def expired(approval: Approval, now: datetime) -> Decided:
    """Its time is over. That is no answer: the step does what the policy says, and a new question is needed to ask again."""
    step = approval.terms.on_expiry
    closing = Closing("expired", step, f"nobody answered in time ({approval.closes_because})", may_cancel=step != "paused")
    return end_unanswered(approval, closing, now, "expired")


def nothing(approval: Approval) -> Decided:
    """An event that has nothing to say to a record as it stands."""
    return Decided(approval, marks=(Mark("nothing"),))


def send(approval: Approval) -> Decided:
    """One attempt of the current verdict."""
    verdict = approval.verdict
    assert verdict is not None
    sending = attrs.evolve(approval, phase="delivering", tries=approval.tries + 1, retry_at=None, moved="")
    return Decided(sending, (Deliver(verdict.message_id, verdict.payload),))


def _deliver_again(approval: Approval, now: datetime) -> Decided:
    if approval.verdict is None or approval.status == "conflict":
        return hold(approval, approval.reason or "the asker's question and our record of it disagree")
    if not approval.is_decided:
        return _collect_again(approval, approval.reason, now, status_invalid=False)
    if not approval.verdict.payload.body:
        return _collect_again(approval, "the answer is a secret, was not kept, and was not taken", now, status_invalid=False)
    if approval.tries >= approval.terms.tries_max:
        return hold(approval, f"the answer could not be delivered: {approval.reason}")
    again = send(attrs.evolve(approval, status="pending", step="awaiting-approval"))
    return attrs.evolve(again, marks=(Mark("retrying", "the asker has not taken it yet"),))


def _collect_again(approval: Approval, why: str, now: datetime, *, status_invalid: bool) -> Decided:
    reopened = attrs.evolve(
        approval,
        status="invalid" if status_invalid else "pending",
        phase="open",
        step="awaiting-approval",
        reason=why,
        votes=(),
        is_decided=False,
        moved="",
        tries=0,
        inquiries=0,
        retry_at=None,
    )
    if now >= reopened.closes_at:
        return expired(reopened, now)
    return Decided(reopened, (Tell("invalid"),), (Mark("invalid" if status_invalid else "reopened", why),))


def _is_current(approval: Approval, message_id: str) -> bool:
    return (
        approval.phase in ("delivering", "backoff", "reconcile")
        and approval.is_decided
        and approval.verdict is not None
        and approval.verdict.message_id == message_id
    )


def _without_secret(said: Said) -> Said:
    return attrs.evolve(said, payload=Payload("", "", is_secret=True)) if said.payload.is_secret else said
