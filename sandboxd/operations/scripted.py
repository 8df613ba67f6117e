"""How is a message taken where scripts are played instead of commands? (the public kit's profile)"""

from __future__ import annotations

import uuid

import attrs
import trio

from sandboxd.a2a.model import Message, Part, PushConfig
from sandboxd.errors import UnsupportedOperation
from sandboxd.live.scripted import message_for, script_for
from sandboxd.operations import audit
from sandboxd.operations.audit import Note
from sandboxd.operations.host import Caller, Host
from sandboxd.operations.push import entry_of
from sandboxd.store.base import Entry
from sandboxd.tasks.events import Submitted
from sandboxd.tasks.view import TaskView


async def begin(
    host: Host, caller: Caller, instance: str, message: Message, config: PushConfig | None, *, note: Note
) -> TaskView | Message:
    """A new task, or the bare message that this one is answered with. `config` came with the message.

    `note` gets on record with the task.
    """
    context_id = message.context_id or str(uuid.uuid4())
    text = message_for(message.message_id)
    if text is not None:
        return Message(str(uuid.uuid4()), "agent", (Part("text", text),), context_id)
    view = TaskView(str(uuid.uuid4()), context_id, instance)
    push = entry_of(caller, view, config) if config else None
    event = Submitted(host.clock.now(), attrs.evolve(message, task_id=view.task_id, context_id=context_id))
    kept = audit.entry_of(host, caller, instance, attrs.evolve(note, task_id=view.task_id))
    submitted = Entry(event, push=push, note=kept)
    view = await host.supervisor.submit_script(caller.principal, submitted, view, script_for(message.message_id))
    note.is_kept = True  # no checkpoint comes between the commit and this
    return view


async def go_on(host: Host, caller: Caller, view: TaskView, message: Message, config: PushConfig | None = None) -> TaskView:
    """The next message of a task that waits for one. `config` came with it."""
    run = host.supervisor.script(view.task_id)
    message = attrs.evolve(message, context_id=view.context_id)
    push = entry_of(caller, view, config) if config else None
    ticket = run.follow_up_nowait(message, caller.principal, push) if run else None
    if ticket is None:
        why = "cannot take the message: the task is working and asks nothing"
        raise UnsupportedOperation(why, facts={"taskId": view.task_id})
    with trio.CancelScope(shield=True):  # one commit: what came with the message is on record with it
        await ticket.fate.committed()
    return ticket.view
