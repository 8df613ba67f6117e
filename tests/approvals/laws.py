"""What must hold of every single decision, whatever came before it; the names are those of the design."""

from __future__ import annotations

from datetime import datetime

from sandboxd.approvals.events import Decided, Deliver, Event, Voted
from sandboxd.approvals.record import Approval
from sandboxd.approvals.routing import Principal


def broken(before: Approval, event: Event, decided: Decided, now: datetime) -> str:
    """The first law that this decision breaks; empty: none."""
    after = decided.approval
    checks = (
        ("INV-ORDER: a change is one revision, and no change is none", _is_ordered(before, after)),
        ("INV-FINAL: a closed record changed", before.phase != "closed" or after == before),
        ("INV-NARROW: the rules of a question changed", _rules(before) == _rules(after)),
        ("INV-QUORUM: a verdict without a quorum", _has_quorum(before, event, after)),
        ("INV-ELIGIBLE: a vote that must not count", all(after.is_eligible(vote.principal) for vote in after.votes)),
        ("INV-DEADLINE: a verdict after the closing time", now < before.closes_at or _ids(before) == _ids(after)),
        ("INV-SAMEID: an attempt that is not the verdict", all(_is_verdict(after, one) for one in _sent(decided))),
        ("INV-CANCEL: an attempt after a cancel", not (_sent(decided) and after.closing)),
        ("INV-BUDGET: too many", after.misfits <= after.terms.schema_budget and after.tries <= after.terms.tries_max),
        (
            "INV-REASON: closed, and nobody knows why",
            after.phase != "closed" or after.status == "responded" or after.reason != "",
        ),
        ("INV-AUDIT: something happened without a mark", bool(decided.marks)),
        ("INV-SILENCE: an answer out of nothing", _is_said(before, event, after)),
    )
    return next((law for law, holds in checks if not holds), "")


def _rules(approval: Approval) -> tuple[object, ...]:
    return approval.question, approval.terms, approval.routings, approval.closes_at, approval.seed


def _is_ordered(before: Approval, after: Approval) -> bool:
    return after.rev == before.rev + 1 if after != before else after.rev == before.rev


def _ids(approval: Approval) -> list[str]:
    return [verdict.message_id for verdict in approval.verdicts]


def _sent(decided: Decided) -> list[Deliver]:
    return [effect for effect in decided.effects if isinstance(effect, Deliver)]


def _is_verdict(after: Approval, packet: Deliver) -> bool:
    verdict = after.verdict
    return verdict is not None and (packet.message_id, packet.payload) == (verdict.message_id, verdict.payload)


def _has_quorum(before: Approval, event: Event, after: Approval) -> bool:
    """A new verdict is what enough distinct persons say who may, one of them just now."""
    if len(after.verdicts) == len(before.verdicts):
        return True
    if not isinstance(event, Voted) or after.verdict is None or len(after.verdicts) != len(before.verdicts) + 1:
        return False
    said: dict[str, tuple[Principal, str]] = {
        vote.principal.person: (vote.principal, vote.payload.sense) for vote in before.votes
    }
    said[event.principal.person] = (event.principal, event.payload.sense)
    sense = after.verdict.payload.sense
    behind = {person for person, (who, what) in said.items() if what == sense and before.is_eligible(who)}
    return len(behind) >= before.votes_needed and set(after.verdict.persons) == behind


def _is_said(before: Approval, event: Event, after: Approval) -> bool:
    """Only a person's answer makes a verdict, and only a verdict is ever accepted."""
    if after.verdicts != before.verdicts and not isinstance(event, Voted):
        kept = [(one.message_id, one.persons) for one in before.verdicts]
        return kept == [(one.message_id, one.persons) for one in after.verdicts]
    return after.status != "responded" or after.is_ours(after.accepted)
