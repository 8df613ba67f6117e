"""How does a caller end a task? (A2A 1.0 §3.1.5)"""

from __future__ import annotations

from typing import Final

import trio

from sandboxd.a2a.model import Task, TaskState
from sandboxd.errors import TaskNotCancelable
from sandboxd.hitl.envelope import plain_text
from sandboxd.live.verdict import Ending
from sandboxd.operations import render
from sandboxd.operations.audit import Note, audited
from sandboxd.operations.host import Caller, Host
from sandboxd.operations.stream import until_terminal
from sandboxd.tasks.view import TaskView

WAIT_S: Final = 10.0  # the stop ladder takes 1.5 s at most; after this the task is answered as it stands, still stopping
REASON_MAX_CHARS: Final = 500


async def cancel(host: Host, caller: Caller, instance: str, task_id: str, *, reason: str | None = None) -> Task:
    """End the task's whole process tree and return the task, canceled.

    A program that ended by itself before it could be stopped wins: then, and for every terminal task, `TaskNotCancelable`.
    Two callers at once both get the canceled task.
    """
    async with audited(host, caller, instance, Note("cancel", task_id)):
        view = await _end(host, caller, instance, task_id, reason)
    return await render.task(host, caller, view, has_acted=True)


async def _end(host: Host, caller: Caller, instance: str, task_id: str, reason: str | None) -> TaskView:
    host.enter(caller, instance)
    caller.need("cancel", instance, f"cancel task `{task_id}`")
    view = await host.view(caller, instance, task_id)
    assert view.state is not None
    if view.state.is_terminal:
        raise _too_late(view)
    detail = {"canceled_by": caller.principal}
    if reason and (said := plain_text(reason)[:REASON_MAX_CHARS]):
        detail["client_reason"] = said
    host.supervisor.end_nowait(task_id, Ending("canceled", detail))
    with trio.move_on_after(WAIT_S):
        view = await until_terminal(host, view)
    assert view.state is not None
    if view.state.is_terminal and view.state is not TaskState.CANCELED:
        raise _too_late(view)
    return view


def _too_late(view: TaskView) -> TaskNotCancelable:
    assert view.state is not None
    why = f"cannot cancel task `{view.task_id}`: it is {view.state.value} already"
    return TaskNotCancelable(why, facts={"taskId": view.task_id})
