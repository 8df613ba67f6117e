"""How does a caller come back to a task? (A2A 1.0 §3.1.6; replay by `Last-Event-ID` is ours)"""

from __future__ import annotations

from sandboxd.errors import CursorExpired, InvalidParams, Problem, UnsupportedOperation
from sandboxd.operations.host import Caller, Host
from sandboxd.operations.stream import TaskStream, check_streaming


async def subscribe(
    host: Host, caller: Caller, instance: str, task_id: str, *, after: int | None = None, shows_ended: bool = False
) -> TaskStream:
    """Follow a task until it is terminal, through every wait for its client.

    `after` N: first the task as it stood at sequence number N, then N+1 and so on, on a terminal task too; `CursorExpired`
    when those are no longer on record. `shows_ended`: a terminal task is shown once instead of being refused (A2A 0.3).
    """
    check_streaming(host)
    view = await host.view(caller, instance, task_id)
    host.followers.check(task_id)
    assert view.state is not None
    if after is None:
        if view.state.is_terminal and not shows_ended:
            why = f"cannot subscribe to task `{task_id}`: it is {view.state.value}; get it instead"
            raise UnsupportedOperation(why, facts={"taskId": task_id, "state": view.state.value})
        return TaskStream(host, caller, view, ends_at_interruption=False)
    past = await host.store.view_at(task_id, after) if after >= 1 else None
    if past is None and 1 <= after <= view.seq:
        why = f"cannot replay task `{task_id}` after event {after}: only its end, event {view.seq}, is still on record"
        raise CursorExpired(why, facts={"taskId": task_id, "first": view.seq})
    if past is None:
        reason = f"must be a sequence number of this task, 1 to {view.seq}"
        raise InvalidParams("cannot replay the task", problems=[Problem("Last-Event-ID", reason)])
    return TaskStream(host, caller, past, ends_at_interruption=False)
