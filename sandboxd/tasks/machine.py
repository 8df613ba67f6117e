"""Which state follows, for every state and every event?

The one transition table of the project (style after h11's `_state.py`). Nothing else changes a task's state, and a terminal
state is final: there is no row for it. `diagram()` draws ARCHITECTURE.md's picture from the table.
"""

from __future__ import annotations

from typing import Final

from sandboxd.a2a.model import TaskState
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Noticed, Rejected, Started, Submitted, Wrote

S = TaskState

# (state, event, case) -> next state; the case tells apart events that end in more than one way.
TABLE: Final[dict[tuple[TaskState | None, type[Event], str], TaskState]] = {
    (None, Submitted, ""): S.SUBMITTED,
    (S.SUBMITTED, Rejected, ""): S.REJECTED,
    (S.SUBMITTED, Started, ""): S.WORKING,
    (S.SUBMITTED, Wrote, ""): S.SUBMITTED,  # the echo: one artifact, no process
    (S.WORKING, Wrote, ""): S.WORKING,
    (S.WORKING, Noticed, ""): S.WORKING,
    (S.WORKING, Asked, ""): S.INPUT_REQUIRED,
    (S.INPUT_REQUIRED, Wrote, ""): S.INPUT_REQUIRED,
    (S.INPUT_REQUIRED, Answered, ""): S.WORKING,
    (S.INPUT_REQUIRED, Closed, "withdrawn"): S.WORKING,
    (S.INPUT_REQUIRED, Closed, "expired"): S.INPUT_REQUIRED,
    (S.INPUT_REQUIRED, Asked, ""): S.INPUT_REQUIRED,  # asked again, after an expiry or at a client's wish
} | {
    (state, Finished, case): end
    for state in (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED)
    for case, end in (("completed", S.COMPLETED), ("failed", S.FAILED), ("canceled", S.CANCELED))
}


class IllegalTransition(Exception):
    """A bug of ours: an event that cannot follow this state was about to be appended."""


def advance(state: TaskState | None, event: Event) -> TaskState:
    """The state after `event`; `IllegalTransition` when the table has no such row."""
    try:
        return TABLE[state, type(event), _case(event)]
    except KeyError:
        here = state.value if state else "nothing"
        raise IllegalTransition(f"cannot apply {type(event).__name__} to a task in `{here}`") from None


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for (state, event, case), after in TABLE.items():
        label = f"{event.__name__} ({case})" if case else event.__name__
        lines.append(f"    {state.value.replace('-', '_') if state else '[*]'} --> {after.value.replace('-', '_')}: {label}")
    return "\n".join(lines)


def _case(event: Event) -> str:
    match event:
        case Closed(closure=closure):
            return closure
        case Finished(reason="canceled"):
            return "canceled"
        case Finished(fail_kind=None):
            return "completed"
        case Finished():
            return "failed"
        case _:
            return ""
