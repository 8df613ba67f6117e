"""What became of the tasks that were under way when the daemon died?

Nothing answers for them any more: their processes ended with the daemon, and no live binding outlives it. Each is resolved
truthfully before the doors open: output streams end, an open prompt is `ended`, the task failed for reasons of infrastructure.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from sandboxd.a2a.model import TaskState
from sandboxd.store.base import Entry
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
    for view in unfinished:
        events = end_events(view, now, new_id())
        after = view
        for event in events:
            after = fold(after, event)
        await feed.append([Entry(event) for event in events], after, after=view.seq)
    return len(unfinished)


def end_events(view: TaskView, now: datetime, message_id: str) -> tuple[Event, ...]:
    """What to append to an unfinished task of a dead daemon."""
    assert view.state is not None
    finished = Finished(now, message_id, "daemon-died", "infrastructure", _SUMMARIES[view.state])
    return (*last_pieces(view, now), finished)


def last_pieces(view: TaskView, now: datetime) -> tuple[Wrote, ...]:
    """The last (empty) piece of each open artifact."""
    return tuple(
        Wrote(now, artifact.artifact_id, artifact.size, 0, first=False, last=True)
        for artifact in view.artifacts
        if not artifact.is_complete
    )
