"""What of a question is shown, and to whom?

To everybody who may come in: what is asked, by which rules, who said something and what came of it. What was answered is shown
where its class is `public`, and to nobody where it is not. `may_answer` and `has_voted` are about whoever looks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from sandboxd.a2a.wire import rfc3339
from sandboxd.approvals.record import Approval, Vote
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.receipts.progress import progress_json
from sandboxd.cockpit.record import Record, Sighting
from sandboxd.cockpit.ways import way_out
from sandboxd.hitl.received import asks_secret


def question_json(record: Record, principal: Principal) -> dict[str, Any]:
    """One question as it stands in a list."""
    approval, place = record.approval, record.place
    return {
        "number": record.number,
        "prompt_id": record.prompt_id,
        "host": place.host,
        "task_id": place.task_id,
        "context_id": place.context_id,
        "question": record.envelope["prompt"],
        "rev": approval.rev,
        "status": approval.status,
        "phase": approval.phase,
        "step": approval.step,
        "reason": approval.reason,
        "way_out": way_out(approval),
        "held": approval.held,
        "asked_at": rfc3339(approval.received_at),
        "closes_at": rfc3339(approval.closes_at),
        "closes_because": approval.closes_because,
        "closed_at": _time(approval.closed_at),
        "is_secret": asks_secret(record.envelope["response_schema"]),
        "responders": _responders(approval),
        "votes": [_vote_json(vote, approval) for vote in approval.votes],
        "may_answer": approval.is_eligible(principal),
        "has_voted": any(vote.principal.person == principal.person for vote in approval.votes),
    }


def whole_question_json(record: Record, principal: Principal, history: Any) -> dict[str, Any]:
    """One question with everything about it."""
    approval = record.approval
    verdict = approval.standing_verdict
    return {
        **question_json(record, principal),
        "response_schema": record.envelope["response_schema"],
        "deadline": _time(approval.question.deadline),
        "payload_class": approval.terms.payload_class,
        "verdict": None
        if verdict is None
        else {
            "persons": list(verdict.persons),
            "at": rfc3339(verdict.at),
            "message_id": verdict.message_id,
            "payload": _payload(verdict.payload.body, approval),
        },
        "accepted_message_id": approval.accepted,
        "progress": progress_json(record),
        "misfits": approval.misfits,
        "misfits_max": approval.terms.schema_budget,
        "tries": approval.tries,
        "tries_max": approval.terms.tries_max,
        "retry_at": _time(approval.retry_at),
        "on_expiry": approval.terms.on_expiry,
        "links": {name: value for name, value in attrs.asdict(record.links).items() if value is not None},
        "history": history,
    }


def sighting_json(sighting: Sighting) -> dict[str, Any]:
    """A task that asks what cannot be asked here."""
    fields = attrs.asdict(sighting)
    del fields["digest"]
    return fields


def _responders(approval: Approval) -> Mapping[str, Any]:
    return {
        "patterns": list(approval.question.patterns or ("any",)),
        "named": [sorted(routing.named) for routing in approval.routings if routing.named is not None],  # each list must allow
        "votes_needed": approval.votes_needed,
        "barred": sorted(approval.terms.barred),
        "ignored": sorted({pattern for routing in approval.routings for pattern in routing.ignored}),
        "dead_end": approval.dead_end,
    }


def _vote_json(vote: Vote, approval: Approval) -> Mapping[str, Any]:
    return {
        "person": vote.principal.person,
        "account": vote.principal.name,
        "channel": vote.channel,
        "at": rfc3339(vote.at),
        "payload": _payload(vote.payload.body, approval),
    }


def _payload(body: str, approval: Approval) -> Any:
    return json.loads(body) if body and approval.terms.payload_class == "public" else None


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)
