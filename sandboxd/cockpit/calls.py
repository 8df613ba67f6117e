"""What is said to a host about one question, and what does its reply mean?

One function a call; each returns the event that says what came of it and raises nothing of the network's. What cannot be known
is said to be unknown: it never becomes an answer, nor its absence.
"""

from __future__ import annotations

import json
from typing import assert_never

from sandboxd.a2a.model import TaskState
from sandboxd.approvals.events import Contested, Deliver, Event, Fence, Fenced, Inquire, Learnt, Misfit, Taken, Undelivered
from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.intake import Asks, read_question
from sandboxd.cockpit.reading import Refused, Seen, Unreachable, Unreadable
from sandboxd.cockpit.record import Pending, Record
from sandboxd.cockpit.redact import redacted
from sandboxd.cockpit.vault import Vault


async def call(agent: Agent | None, pending: Pending, vault: Vault) -> Event:
    """Make the call; `agent` None: the host is no longer configured."""
    record = pending.record
    match pending.wire:
        case Deliver() as wire:
            return await _deliver(agent, record, wire, vault)
        case Inquire():
            return await _inquire(agent, record, vault)
        case Fence(may_cancel=may_cancel):
            return await _fence(agent, record, may_cancel=may_cancel)
        case _:
            assert_never(pending.wire)


async def _deliver(agent: Agent | None, record: Record, wire: Deliver, vault: Vault) -> Event:
    message_id = wire.message_id
    value = vault.get(record.number, wire.payload) if wire.payload.is_secret else json.loads(wire.payload.body)
    if agent is None or value is None:
        why = "the answer is a secret that is no longer known" if agent else _unknown_host(record)
        return Undelivered(message_id, why, is_final=True)
    try:
        await agent.answer(
            task_id=record.place.task_id,
            context_id=record.place.context_id,
            message_id=message_id,
            prompt_id=record.prompt_id,
            payload=value,
            is_secret=wire.payload.is_secret,
        )
    except Refused as refused:
        if refused.is_conflict:
            return Contested(message_id, refused.accepted_message_id, str(refused))
        if refused.is_misfit:
            return Misfit(message_id, _misfits(refused, record))
        return Undelivered(message_id, str(refused), is_final=not refused.is_passing)
    except (Unreachable, Unreadable) as error:
        return Undelivered(message_id, str(error))
    return Taken(message_id)


async def _inquire(agent: Agent | None, record: Record, vault: Vault) -> Event:
    if agent is None:
        return Learnt("unknown", None, _unknown_host(record))
    try:
        seen = await agent.get(record.place.task_id)
    except (Refused, Unreachable, Unreadable) as error:
        return Learnt("unknown", None, str(error))
    for message_id, prompt_id in seen.said:
        if record.approval.is_ours(message_id):
            return Learnt("accepted", message_id)
        if prompt_id == record.prompt_id:
            return Learnt("lost", None, f"the host took another answer, message {message_id}")
    if _asks_it(seen, record):
        return Learnt("open", None, "the host asks it still")
    # It no longer asks. The very same message once more is then a question: what was taken for it? While a cancel is under way
    # only behind a terminal state, where nothing can be taken any more.
    if seen.state.is_terminal or record.approval.closing is None:
        for verdict in record.approval.verdicts:
            learnt = await _probe(agent, record, Deliver(verdict.message_id, verdict.payload), vault)
            if learnt is not None:
                return learnt
    if not record.approval.verdicts or seen.keeps_answers:
        return Learnt("lost", None, f"the task is {seen.state.value}, and took no answer to this")
    return Learnt("unknown", None, f"the task is {seen.state.value}, and the host does not say what it took")


async def _probe(agent: Agent, record: Record, wire: Deliver, vault: Vault) -> Learnt | None:
    if not wire.payload.body:
        return None
    match await _deliver(agent, record, wire, vault):
        case Taken(message_id=message_id):
            return Learnt("accepted", message_id)
        case Contested(accepted=str() as accepted):
            if record.approval.is_ours(accepted):
                return Learnt("accepted", accepted)
            return Learnt("lost", None, f"the host took another answer, message {accepted}")
        case _:
            return None


async def _fence(agent: Agent | None, record: Record, *, may_cancel: bool) -> Event:
    if agent is None:
        return Fenced(holds=False, why=_unknown_host(record))
    if not may_cancel:
        return Fenced(holds=False, why="the host cannot retire a question without cancelling its task")
    closing = record.approval.closing
    try:
        seen = await agent.cancel(record.place.task_id, closing.reason if closing else "")
    except Refused:
        try:
            seen = await agent.get(record.place.task_id)  # it may have ended already
        except (Refused, Unreachable, Unreadable) as error:
            return Fenced(holds=False, why=str(error))
    except (Unreachable, Unreadable) as error:
        return Fenced(holds=False, why=str(error))
    if seen.state.is_terminal:
        return Fenced(holds=True, why=f"the task is {seen.state.value}")
    return Fenced(holds=False, why=f"the task was to be cancelled, and is {seen.state.value}")


def _asks_it(seen: Seen, record: Record) -> bool:
    asked = read_question(seen)
    return isinstance(asked, Asks) and asked.envelope.prompt_id == record.prompt_id and seen.state is TaskState.INPUT_REQUIRED


def _misfits(refused: Refused, record: Record) -> str:
    """Where the host says that it does not fit; a host may quote an answer there."""
    if record.approval.terms.payload_class == "public" or not refused.problems:
        return refused.misfits
    return "; ".join(map(str, redacted(refused.problems, record.envelope["response_schema"])))


def _unknown_host(record: Record) -> str:
    return f"the host `{record.place.host}` is no longer configured"
