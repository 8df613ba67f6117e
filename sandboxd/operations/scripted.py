"""How is a message taken where scripts are played instead of commands? (the public kit's profile)"""

from __future__ import annotations

import uuid

import attrs

from sandboxd.a2a.model import Message, Part
from sandboxd.errors import UnsupportedOperation
from sandboxd.live.scripted import message_for, script_for
from sandboxd.operations.host import Caller, Host
from sandboxd.tasks.events import Submitted
from sandboxd.tasks.view import TaskView


async def begin(host: Host, caller: Caller, instance: str, message: Message) -> TaskView | Message:
    """A new task, or the bare message that this one is answered with."""
    context_id = message.context_id or str(uuid.uuid4())
    text = message_for(message.message_id)
    if text is not None:
        return Message(str(uuid.uuid4()), "agent", (Part("text", text),), context_id)
    view = TaskView(str(uuid.uuid4()), context_id, instance)
    event = Submitted(host.clock.now(), attrs.evolve(message, task_id=view.task_id, context_id=context_id))
    return await host.supervisor.submit_script(caller.principal, event, view, script_for(message.message_id))


async def go_on(host: Host, caller: Caller, view: TaskView, message: Message) -> TaskView:
    """The next message of a task that waits for one."""
    run = host.supervisor.script(view.task_id)
    message = attrs.evolve(message, context_id=view.context_id)
    ticket = run.follow_up_nowait(message, caller.principal) if run else None
    if ticket is None:
        why = "cannot take the message: the task is working and asks nothing"
        raise UnsupportedOperation(why, facts={"taskId": view.task_id})
    await ticket.fate.committed()
    return ticket.view
