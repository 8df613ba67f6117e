"""What becomes of a question when something happens?

`decide` is the one function: a record and an event in, a record, effects and marks out. It reads no clock, mints no id and
raises nothing. An answer counts iff `now` lies before the closing time, read once; silence, errors and expiry are none.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import assert_never

import attrs

from sandboxd.approvals import delivery
from sandboxd.approvals.closing import end_unanswered, pursue, settle
from sandboxd.approvals.events import (
    Alert,
    Ask,
    CancelAsked,
    Contested,
    Decided,
    Effect,
    Event,
    Fenced,
    Learnt,
    Mark,
    Misfit,
    Moved,
    Received,
    Restarted,
    ResumeAsked,
    Settled,
    Taken,
    Tell,
    Ticked,
    Undelivered,
    Voted,
)
from sandboxd.approvals.record import Approval, Closing, Verdict, Vote
from sandboxd.approvals.routing import route
from sandboxd.approvals.timing import closing_time, reminder_times


def begin(event: Received, now: datetime) -> Decided:
    """The record of a question that was never seen before."""
    question, terms = event.question, event.terms
    closes_at, because = closing_time(question.deadline, terms, now)
    own = () if terms.narrowed is None else (terms.narrowed,)
    asked = Approval(
        question=question,
        terms=terms,
        seed=event.seed,
        received_at=now,
        closes_at=closes_at,
        closes_because=because,
        routings=(route(question.patterns), *own),
        reminders=reminder_times(now, closes_at),
    )
    if now >= closes_at:
        return delivery.expired(attrs.evolve(asked, closes_because="its deadline had passed when it came"), now)
    if why := asked.dead_end:
        return Decided(attrs.evolve(asked, step="paused", reason=why), (Alert(why),), (Mark("asked", why),))
    return Decided(asked, (Ask(),), (Mark("asked"),))


def decide(approval: Approval, event: Event, now: datetime) -> Decided:
    """What comes of one event at that time; `rev` has grown by one if the record is another one."""
    due = Decided(approval)
    if approval.phase == "open" and now >= approval.closes_at:
        due = delivery.expired(approval, now)
    after = due.then(_apply(due.approval, event, now))
    if after.approval == approval:
        return after
    return attrs.evolve(after, approval=attrs.evolve(after.approval, rev=approval.rev + 1))


def _apply(approval: Approval, event: Event, now: datetime) -> Decided:
    if approval.phase == "closed":
        return _too_late(approval, event)
    match event:
        case Received():
            return _received_again(approval, event)
        case Voted():
            return _voted(approval, event, now)
        case Taken():
            return delivery.taken(approval, event, now)
        case Misfit():
            return delivery.misfit(approval, event, now)
        case Contested():
            return delivery.contested(approval, event, now)
        case Undelivered():
            return delivery.undelivered(approval, event, now)
        case Learnt():
            return delivery.learnt(approval, event, now)
        case Fenced():
            return delivery.fenced(approval, event, now)
        case Moved():
            return delivery.moved(approval, event, now)
        case CancelAsked():
            return _cancel(approval, event, now)
        case ResumeAsked():
            return _resume(approval)
        case Settled():
            return _settled(approval, event, now)
        case Ticked():
            return _ticked(approval, now)
        case Restarted():
            return delivery.restarted(approval)
        case _:
            assert_never(event)


def _too_late(approval: Approval, event: Event) -> Decided:
    """A closed record never changes; what should not be possible is told."""
    accepted = _accepted_by(event)
    if approval.is_ours(accepted) and accepted != approval.accepted:
        why = f"an answer was taken after the record had closed as {approval.status}: message {accepted}"
        return Decided(approval, (Alert(why),), (Mark("conflict", why),))
    if isinstance(event, Received) and event.question.digest != approval.question.digest:
        why = "a prompt id that was closed came again with another question, which is not asked"
        return Decided(approval, (Alert(why),), (Mark("conflict", why),))
    if isinstance(event, Voted | CancelAsked | ResumeAsked | Settled):
        return Decided(approval, marks=(Mark("closed", _standing(approval)),))
    return delivery.nothing(approval)


def _received_again(approval: Approval, event: Received) -> Decided:
    if event.question.digest == approval.question.digest:
        return Decided(approval, marks=(Mark("repeated"),))
    why = "the same prompt id came with another question (hitl-prompt/v1, S-5)"
    if approval.closing is not None:
        return Decided(approval, (Alert(why),), (Mark("conflict", why),))
    doubted = attrs.evolve(
        approval, status="conflict", phase="reconcile", step="paused", reason=why, retry_at=None, inquiries=0, held=True
    )
    return Decided(doubted, (Alert(why),), (Mark("conflict", why),))


def _voted(approval: Approval, event: Voted, now: datetime) -> Decided:
    if not approval.is_eligible(event.principal):  # first: who may not answer learns nothing, and spends nothing
        return Decided(approval, marks=(Mark("not-eligible", approval.why_not(event.principal)),))
    if approval.phase != "open":
        return Decided(approval, marks=(Mark("closed", _standing(approval)),))
    if event.unjudged:
        return Decided(approval, marks=(Mark("unjudged", event.unjudged),))
    if event.problems:
        why = "; ".join(map(str, event.problems))
        reason = approval.dead_end or "the last answer did not fit"
        counted = attrs.evolve(approval, misfits=approval.misfits + 1, status="invalid", reason=reason)
        if counted.misfits >= approval.terms.schema_budget:
            return end_unanswered(counted, delivery.out_of_budget(counted), now, "delivery-failed")
        return Decided(counted, marks=(Mark("invalid", why),))
    vote = Vote(event.principal, event.channel, event.payload, now)
    others = tuple(one for one in approval.votes if one.principal.person != event.principal.person)
    voted = attrs.evolve(approval, votes=(*others, vote), status="pending", reason=approval.dead_end)
    concur = [one for one in voted.votes if one.payload.sense == vote.payload.sense]
    if len(concur) < voted.votes_needed:
        return Decided(voted, marks=(Mark("counted", f"{len(concur)} of {voted.votes_needed}"),))
    turn = len(approval.verdicts) + 1
    message_id = str(uuid.uuid5(uuid.UUID(approval.question.prompt_id), f"{approval.seed}:{turn}"))
    verdict = Verdict(message_id, concur[0].payload, tuple(one.principal.person for one in concur), now)
    fixed = attrs.evolve(voted, verdicts=(*approval.verdicts, verdict), is_decided=True, tries=0)
    return attrs.evolve(delivery.send(fixed), marks=(Mark("decided", f"{len(concur)} of {voted.votes_needed}"),))


def _cancel(approval: Approval, event: CancelAsked, now: datetime) -> Decided:
    reason = f"cancelled by {event.principal.name}" + (f": {event.reason}" if event.reason else "")
    closing = Closing("cancelled", "cancelled", reason, may_cancel=True)
    # A fence that only retired the question leaves its task alive, so it is made anew.
    return end_unanswered(attrs.evolve(approval, is_fenced=False), closing, now, "cancelling")


def _resume(approval: Approval) -> Decided:
    if approval.phase != "reconcile" or not approval.held:
        return Decided(approval, marks=(Mark("nothing", "it goes on by itself"),))
    again = attrs.evolve(approval, held=False, inquiries=0, tries=0, retry_at=None)
    if again.verdicts and again.closing is None:
        again = attrs.evolve(again, status="pending")
    return Decided(again, (pursue(again),), (Mark("resumed"),))


def _settled(approval: Approval, event: Settled, now: datetime) -> Decided:
    if not approval.held:
        return Decided(approval, marks=(Mark("nothing", "what became of it is still being found out"),))
    return settle(approval, f"closed on the word of {event.principal.name}: {event.reason}", now)


def _ticked(approval: Approval, now: datetime) -> Decided:
    if approval.retry_at is not None and now >= approval.retry_at:
        if approval.phase == "backoff":
            return attrs.evolve(delivery.send(approval), marks=(Mark("retrying"),))
        due = attrs.evolve(approval, retry_at=None)
        return Decided(due, (pursue(due),), (Mark("reconciling"),))
    if approval.phase != "open":
        return delivery.nothing(approval)
    effects, marks, told = list[Effect](), list[Mark](), approval
    if approval.reminded < len(approval.reminders) and now >= approval.reminders[approval.reminded]:
        passed = sum(1 for at in approval.reminders if at <= now)  # several at once, after a suspend, are one
        told = attrs.evolve(told, reminded=passed)
        effects.append(Tell("reminder"))
        marks.append(Mark("reminded"))
    for escalation in approval.terms.escalations[approval.escalated :]:
        if now >= approval.received_at + escalation.after:
            told = attrs.evolve(told, escalated=told.escalated + 1)
            effects.append(Tell("escalation", escalation.route))
            marks.append(Mark("escalated", escalation.route))
    return Decided(told, tuple(effects), tuple(marks) or (Mark("nothing"),))


def _accepted_by(event: Event) -> str | None:
    match event:
        case Taken(message_id=message_id) | Learnt(finding="accepted", message_id=message_id) | Contested(accepted=message_id):
            return message_id
        case _:
            return None


def _standing(approval: Approval) -> str:
    if approval.phase == "closed":
        return f"it is closed: {approval.status}" + (f" ({approval.reason})" if approval.reason else "")
    return "another answer is being delivered" if approval.verdict and approval.closing is None else "it is being closed"
