"""Is the transition table whole, and does it say what the protocol says?"""

from __future__ import annotations

import pytest

from sandboxd.a2a.model import TaskState
from sandboxd.tasks.events import Answered, Asked, Closed, Event, Finished, Noticed, Rejected, Started, Submitted, Wrote
from sandboxd.tasks.machine import TABLE, IllegalTransition, advance, diagram
from tests.tasks.happenings import EXAMPLES

S = TaskState
OURS = tuple(state for state in TaskState if state is not S.AUTH_REQUIRED)  # a list filter may name it; no task enters it
STATES = (None, *OURS)

# Said again in other words than the table's, so that a slip in one of them shows.
MAY_FOLLOW: dict[TaskState | None, set[type[Event]]] = {
    None: {Submitted},
    S.SUBMITTED: {Started, Rejected, Wrote, Finished},
    S.WORKING: {Wrote, Asked, Noticed, Finished},
    S.INPUT_REQUIRED: {Wrote, Asked, Answered, Closed, Finished},
    S.COMPLETED: set(),
    S.FAILED: set(),
    S.CANCELED: set(),
    S.REJECTED: set(),
    S.AUTH_REQUIRED: set(),  # the protocol names it for clients' filters; no task of ours enters it
}


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("state", STATES, ids=str)
def test_every_event_in_every_state_is_in_the_table_or_illegal(state, event):
    if type(event) in MAY_FOLLOW[state]:
        assert isinstance(advance(state, event), TaskState)
    else:
        with pytest.raises(IllegalTransition, match=f"cannot apply {type(event).__name__} to a task in"):
            advance(state, event)


def test_the_examples_cover_every_kind_of_event():
    assert {type(event) for event in EXAMPLES} == {kind for _, kind, _ in TABLE}


def test_every_row_of_the_table_is_reached_by_an_example():
    reached = set()
    for state in STATES:
        for event in EXAMPLES:
            if type(event) in MAY_FOLLOW[state]:
                reached.add((state, type(event), advance(state, event)))

    assert reached == {(state, kind, after) for (state, kind, _), after in TABLE.items()}


@pytest.mark.parametrize("state", [state for state in TaskState if state.is_terminal], ids=str)
def test_nothing_leaves_a_terminal_state(state):
    assert [row for row in TABLE if row[0] is state] == []


def test_no_task_of_ours_waits_for_credentials():
    assert S.AUTH_REQUIRED not in TABLE.values()
    assert [row for row in TABLE if row[0] is S.AUTH_REQUIRED] == []


@pytest.mark.parametrize("state", OURS, ids=str)
def test_every_state_can_be_reached_and_left_unless_it_is_terminal(state):
    assert state in TABLE.values()
    assert any(start is state for start, _, _ in TABLE) is not state.is_terminal


@pytest.mark.parametrize(
    ("event", "end"),
    [
        (EXAMPLES[7], S.COMPLETED),
        (EXAMPLES[8], S.FAILED),
        (EXAMPLES[9], S.FAILED),
        (EXAMPLES[10], S.CANCELED),
    ],
)
def test_the_end_follows_from_its_reason_and_whose_fault_it_was(event, end):
    assert advance(S.WORKING, event) is end


def test_an_expired_prompt_leaves_the_task_waiting_and_a_withdrawn_one_does_not():
    assert advance(S.INPUT_REQUIRED, EXAMPLES[6]) is S.INPUT_REQUIRED
    assert advance(S.INPUT_REQUIRED, EXAMPLES[5]) is S.WORKING


def test_the_diagram_draws_every_row():
    lines = diagram().splitlines()

    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == 1 + len(TABLE)
    assert "    [*] --> submitted: Submitted" in lines
    assert "    input_required --> working: Closed (withdrawn)" in lines
