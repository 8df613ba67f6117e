"""Whose question does this answer, and may it still?

hitl-prompt/v1, Acceptance and rejection: with `hitl_response_for` the extension's rule wins over A2A's errors, so everything
unknown, answered, stale, foreign, terminal or without a live process is one refusal, `PromptNotOpen`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import attrs
import trio

from sandboxd import metrics
from sandboxd.a2a import v10
from sandboxd.a2a.extensions import HITL_RESPONSE_FOR, REISSUED_AS
from sandboxd.a2a.jsontext import dump_json
from sandboxd.a2a.model import Message
from sandboxd.a2a.wire import rfc3339
from sandboxd.errors import AnswerInvalid, DeliveryFailed, InvalidParams, NotReady, Problem, PromptNotOpen
from sandboxd.hitl.answer import TEXT_MAX_BYTES
from sandboxd.hitl.envelope import Response, parse_response
from sandboxd.live.past import Accepted
from sandboxd.live.recorder import RecordLost
from sandboxd.live.run import TaskRun
from sandboxd.operations.host import Caller, Host
from sandboxd.schemas.judge import Judged, Unjudged
from sandboxd.store.base import PushEntry
from sandboxd.tasks.view import TaskView

ANSWER_MAX_BYTES: Final = 64 * 1024  # the typed text has 4 KiB at most; the rest is parts that say the same
RECORD_S: Final = 30.0  # how long a typed answer may wait for the disk before the caller is told so


async def answer(host: Host, caller: Caller, instance: str, message: Message, push: PushEntry | None = None) -> TaskView:
    """Type the answer into the process that asked, and return the task once that is on record, and `push` with it.

    Raises `InvalidParams`, `PromptNotOpen`, `AnswerInvalid`, `DeliveryFailed`; `NotReady` when it was typed but the record
    still waits for the store.
    """
    host.enter(caller, instance)
    caller.need("answer", instance, "take an answer")
    assert message.metadata is not None
    response = parse_response(message.metadata[HITL_RESPONSE_FOR], message.task_id)
    _check_size(message)
    assert message.task_id is not None
    view = await host.find(caller, instance, message.task_id, history_length=0)  # the program waits: a long one takes ms
    if view is None or message.context_id not in (None, view.context_id):
        metrics.ANSWERS.labels(outcome="conflict").inc()
        raise _unknown(response.prompt_id)
    message = attrs.evolve(message, context_id=view.context_id)
    run = host.supervisor.run(view.task_id)
    if run is None:
        metrics.ANSWERS.labels(outcome="conflict").inc()
        raise await from_record(host, view, response.prompt_id)
    # First the policy's schema, elsewhere and at leisure; then, without a checkpoint, is the prompt still open, and the claim.
    misfits = await _foreign_misfits(host, run, response)
    try:
        accepted = run.answer_nowait(response, message, caller.principal, misfits, push)
    except PromptNotOpen as refused:
        metrics.ANSWERS.labels(outcome="conflict").inc()
        if earlier := run.accepted_nowait(response.prompt_id):
            await _on_record(earlier)  # what is told must outlive a crash
            raise
        if REISSUED_AS in refused.facts:  # no record says that: a crash ends the new prompt as well as the old one
            raise
        raise await from_record(host, view, response.prompt_id) from None
    except AnswerInvalid:
        metrics.ANSWERS.labels(outcome="invalid").inc()
        raise
    except DeliveryFailed:
        metrics.ANSWERS.labels(outcome="write_failed").inc()
        raise
    metrics.ANSWERS.labels(outcome="accepted").inc()
    typed_at = trio.current_time()
    await _on_record(accepted)
    metrics.ANSWER_RESUME_S.observe(trio.current_time() - typed_at)
    assert accepted.view is not None  # it is our answer
    return accepted.view


def _check_size(message: Message) -> None:
    """An answer stays in the task's history, which is kept with every later change of state: so it has a bound of its own."""
    size = len(dump_json(v10.encode_message(message)))
    if size > ANSWER_MAX_BYTES:
        why = f"has {size} bytes in all, and an answer may have {ANSWER_MAX_BYTES}; what is typed is in its metadata alone"
        raise InvalidParams("cannot take the answer: it is too large", problems=[Problem("message", why)])


async def _foreign_misfits(host: Host, run: TaskRun, response: Response) -> tuple[Problem, ...]:
    schema, text = run.foreign_schema_nowait(response.prompt_id), response.payload.get("text")
    if schema is None or not isinstance(text, str) or len(text) > TEXT_MAX_BYTES:
        return ()
    match await host.judge.judge(schema, text):
        case Judged(problems=problems):
            return tuple(attrs.evolve(problem, field=f"/text{problem.field}") for problem in problems)
        case Unjudged(why=why):
            return (Problem("/text", f"cannot be checked against the policy's schema: {why}", "allOf"),)


async def _on_record(accepted: Accepted) -> None:
    # Shielded: a client that hangs up now and asks again must find its answer on record, not a prompt that is taken.
    with trio.CancelScope(deadline=trio.current_time() + RECORD_S, shield=True), contextlib.suppress(RecordLost):
        await accepted.fate.committed()
        return
    facts = {"prompt_id": accepted.prompt_id, "typed": True}
    raise NotReady("an answer was typed once, but the store has not taken its record; do not send it again", facts=facts)


async def from_record(host: Host, view: TaskView, prompt_id: str) -> PromptNotOpen:
    """What the store knows of a prompt that no living run holds open."""
    facts: dict[str, Any] = {"prompt_id": prompt_id}
    record = await host.store.prompt(prompt_id)
    if record is None or record.task_id != view.task_id:
        return _unknown(prompt_id)
    if record.state == "answered" and record.closed_at is not None:
        facts["accepted_message_id"] = record.message_id
        return PromptNotOpen(f"the prompt was answered at {rfc3339(record.closed_at)}", facts=facts)
    became = {
        "withdrawn": "the program went on without an answer",
        "expired": "nobody answered in time",
        "ended": "its task has ended",
        "reissued": "its question was asked again, under another id",
        "open": "no living process waits for it",
    }
    return PromptNotOpen(f"the prompt is closed: {became.get(record.state, record.state)}", facts=facts)


def _unknown(prompt_id: str) -> PromptNotOpen:
    return PromptNotOpen("no such prompt is open on this task", facts={"prompt_id": prompt_id})
