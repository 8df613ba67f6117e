"""Which tasks are there? (A2A 1.0 §3.1.4)"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sandboxd.a2a.model import ListRequest, TaskPage
from sandboxd.errors import InvalidParams, Problem
from sandboxd.operations import render
from sandboxd.operations.host import Caller, Host
from sandboxd.store.base import TaskQuery
from sandboxd.tasks.view import TaskView, last_change

PAGE_MAX_BYTES: Final = 16 * 1024 * 1024  # one task's output at the shipped policy's cap


async def list_tasks(host: Host, caller: Caller, instance: str, request: ListRequest) -> TaskPage:
    """One page of this instance's tasks, newest status first; the cursor is stable while tasks change.

    Without the scope `view` the list is of the caller's own tasks, its totals too.
    """
    host.enter(caller, instance)
    query = TaskQuery(
        instance=instance,
        context_id=request.context_id,
        principal=None if caller.grants.allows("view", instance) else caller.principal,
        state=request.state,
        since=request.since,
        limit=request.page_size,
        after=_cursor(request.page_token) if request.page_token else None,
        history_length=request.history_length,
    )
    rows = await host.store.tasks(query)
    views = _within_bound(rows.views) if request.include_artifacts else rows.views
    tasks = [
        await render.task(host, caller, view, history_length=request.history_length, with_artifacts=request.include_artifacts)
        for view in views
    ]
    has_more = rows.has_more or len(views) < len(rows.views)
    token = _token(views[-1]) if has_more and views else ""
    return TaskPage(tuple(tasks), token, request.page_size, rows.total)


def _within_bound(views: Sequence[TaskView]) -> Sequence[TaskView]:
    """As many tasks as a page with artifacts may hold in memory, one at least; the rest is on the next page."""
    kept_bytes = 0
    for index, view in enumerate(views):
        kept_bytes += sum(artifact.size for artifact in view.artifacts)
        if index and kept_bytes > PAGE_MAX_BYTES:
            return views[:index]
    return views


def _token(view: TaskView) -> str:
    place = json.dumps([last_change(view).isoformat(), view.task_id])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _cursor(token: str) -> tuple[datetime, str]:
    try:
        moment, task_id = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        at = datetime.fromisoformat(moment)
        if at.tzinfo is None or not isinstance(task_id, str):
            raise ValueError("not one of our tokens")
    except (ValueError, TypeError, binascii.Error, RecursionError):
        why = Problem("pageToken", "is not a token of this list; start again without one")
        raise InvalidParams("cannot list tasks: bad page token", problems=[why]) from None
    return at, task_id
