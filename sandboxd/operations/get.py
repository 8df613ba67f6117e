"""How does a task stand? (A2A 1.0 §3.1.3)"""

from __future__ import annotations

from sandboxd.a2a.model import Task
from sandboxd.operations import render
from sandboxd.operations.host import Caller, Host


async def get(host: Host, caller: Caller, instance: str, task_id: str, *, history_length: int | None = None) -> Task:
    """The task with its artifacts; `TaskNotFound`."""
    view = await host.view(caller, instance, task_id, history_length=history_length)
    return await render.task(host, caller, view, history_length=history_length)
