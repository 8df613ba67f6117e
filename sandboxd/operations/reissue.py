"""How is a question asked again that a program still waits at? (urn:sandboxd:reissue:v1)

A prompt id takes one answer or none, and none once its time is over. Where its program waits on all the same, a client with the
scope `reissue` has the very same question asked under a new id. In one event the old id closes and the new one opens, so a late
answer to the old one is refused (409) and types nothing. The request activates the extension by its URI, as any other.
"""

from __future__ import annotations

import contextlib
from typing import Any

import trio

from sandboxd.a2a.extensions import REISSUE, REISSUED_AS
from sandboxd.a2a.fields import Fields
from sandboxd.a2a.model import Task
from sandboxd.errors import ExtensionSupportRequired, InvalidParams, NotReady, PromptNotOpen
from sandboxd.hitl.envelope import is_uuid
from sandboxd.live.recorder import RecordLost, Ticket
from sandboxd.operations import render
from sandboxd.operations.answer import RECORD_S, from_record
from sandboxd.operations.audit import Note, audited
from sandboxd.operations.host import Caller, Host


def read(params: Any) -> tuple[str, str]:
    """The task's id and the prompt's, lower case; `InvalidParams`."""
    problems: list[Any] = []
    request = Fields(params, "", problems)
    task_id = request.required("id", request.identifier("id")) or ""
    prompt_id = request.required("promptId", request.identifier("promptId")) or ""
    if prompt_id and not is_uuid(prompt_id):
        request.problem("promptId", "must be a UUID")
    if problems:
        raise InvalidParams("cannot ask the question again: the request is malformed", problems=problems)
    return task_id, prompt_id.lower()


async def reissue(host: Host, caller: Caller, instance: str, task_id: str, prompt_id: str) -> Task:
    """Ask it again and return the task, which then asks it under the new id.

    Raises `ExtensionSupportRequired`, `Forbidden`, `TaskNotFound`; `PromptNotOpen` where nobody waits at that question, with
    `reissued_as` where it was asked again before; `UnsupportedOperation` where the policy's count of questions is used up.
    """
    async with audited(host, caller, instance, Note("reissue", task_id, prompt_id)):
        host.enter(caller, instance)
        if REISSUE not in caller.extensions:
            why = f"name this in the header `A2A-Extensions`: {REISSUE}"
            raise ExtensionSupportRequired(f"cannot ask the question again: {why}", facts={"missing_extensions": [REISSUE]})
        caller.need("reissue", instance, "ask a question again")
        view = await host.view(caller, instance, task_id)
        run = host.supervisor.run(view.task_id)
        try:
            ticket = run.reissue_nowait(prompt_id, caller.principal) if run is not None else None
        except PromptNotOpen as refused:
            if REISSUED_AS in refused.facts:
                raise
            ticket = None
        if ticket is None:
            raise await from_record(host, view, prompt_id)
        await _on_record(ticket, prompt_id)
    return await render.task(host, caller, ticket.view, has_acted=True)


async def _on_record(ticket: Ticket, prompt_id: str) -> None:
    with trio.move_on_after(RECORD_S), contextlib.suppress(RecordLost):
        await ticket.fate.committed()
        return
    raise NotReady("the question is asked again, but the store has not taken it yet", facts={"prompt_id": prompt_id})
