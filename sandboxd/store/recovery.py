"""What became of the tasks that were under way when the daemon died?

Nothing answers for them any more: their processes ended with the daemon, and no live binding outlives it. Each is resolved
truthfully before the doors open: output streams end, an open prompt is `ended`, the task failed for reasons of
infrastructure. A question that was foreseen comes first, for a client may have been told it (`store/foreseen`). So one that
was about to be asked as the daemon died can be on record as asked.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import reduce
from typing import Final

from sandboxd.a2a.model import TaskState
from sandboxd.store.base import Entry, Unfinished
from sandboxd.store.feed import Feed
from sandboxd.tasks.events import Event, Finished, Wrote
from sandboxd.tasks.view import TaskView, fold

_SUMMARIES: Final = {
    TaskState.SUBMITTED: "The daemon died before the command's start was on record; if it ran, it ended with the daemon.",
    TaskState.WORKING: "The daemon died while the command was running, and the command ended with it; how far it came is "
    "known only from the output that was kept.",
    TaskState.INPUT_REQUIRED: "The daemon died while the command waited for an answer, and the command ended with it; its "
    "question can no longer be answered.",
}


async def recover(feed: Feed, now: datetime, new_id: Callable[[], str]) -> int:
    """Resolve every unfinished task; how many there were. `new_id` mints message ids."""
    unfinished = await feed.store.unfinished()
    for task in unfinished:
        events, view = before_the_end(task, now)
        assert view.state is not None
        finished = Finished(now, new_id(), "daemon-died", "infrastructure", _SUMMARIES[view.state])
        await feed.append([Entry(event) for event in (*events, finished)], fold(view, finished), after=task.view.seq)
    return len(unfinished)


def before_the_end(task: Unfinished, now: datetime) -> tuple[tuple[Event, ...], TaskView]:
    """What happened before the end of a task that nobody conducts any more, and the task then.

    The question that was foreseen, and the last (empty) piece of each open artifact.
    """
    pieces = [
        Wrote(now, artifact.artifact_id, artifact.size, 0, first=False, last=True)
        for artifact in task.view.artifacts
        if not artifact.is_complete
    ]
    events = (*([] if task.foreseen is None else [task.foreseen]), *pieces)
    return events, reduce(fold, events, task.view)
