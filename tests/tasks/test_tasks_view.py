"""Does the fold of what happened show a client the truth?"""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.a2a.extensions import HITL_PROMPT, OUTCOME, PROMPT_FACTS, PROMPT_NEWS, RUN_FACTS
from sandboxd.a2a.model import Message, TaskState
from sandboxd.hitl.envelope import envelope_json
from sandboxd.tasks.events import Asked, Event, Finished, Rejected, Started, Submitted, Wrote
from sandboxd.tasks.machine import TABLE, IllegalTransition, advance
from sandboxd.tasks.view import TaskView, fold, hide_envelopes, last_change, outcome_of, status_update, task_of
from tests.tasks.happenings import BY_KIND, ENVELOPE, EXAMPLES, MESSAGE, MOMENT, events

NEW = TaskView("task-1", "context-1", "box")
ASKED = Asked(MOMENT, "asked-1", ENVELOPE, ("y", "n"), {"rule": "shell.yes-no"})


def told(*happened: Event) -> TaskView:
    view = NEW
    for event in happened:
        view = fold(view, event)
    return view


def working(*more: Event) -> TaskView:
    return told(Submitted(MOMENT, MESSAGE), Started(MOMENT, {"policy": "p"}), *more)


@given(st.lists(events, max_size=30))
def test_any_sequence_counts_one_by_one_and_ends_for_good(happened):
    view = NEW
    for event in happened:
        try:
            after = fold(view, event)
        except IllegalTransition:
            continue
        assert view.state is None or not view.state.is_terminal
        assert after.seq == view.seq + 1
        assert after.history[: len(view.history)] == view.history
        view = after


@given(st.data())
def test_any_legal_story_keeps_the_view_in_step_with_the_state(data):
    view = NEW
    for _ in range(data.draw(st.integers(1, 25))):
        kinds = sorted({kind.__name__: kind for state, kind, _ in TABLE if state is view.state}.items())
        if not kinds:
            break
        event = data.draw(BY_KIND[data.draw(st.sampled_from([kind for _, kind in kinds]))])
        state = advance(view.state, event)
        view = fold(view, event)

        assert view.state is state
        assert view.status is not None
        assert view.status.state is state
        assert (view.prompt is not None) == (state is TaskState.INPUT_REQUIRED)
        assert (view.status.outcome is not None) == state.is_terminal


def test_output_moves_the_number_and_the_artifact_and_nothing_else():
    before = attrs.evolve(working(ASKED), earlier=3)
    after = fold(before, Wrote(MOMENT, "terminal", 0, 3, first=True, last=False))

    assert all(getattr(before, field.name) for field in attrs.fields(TaskView) if field.name != "artifacts")
    assert attrs.evolve(after, seq=before.seq, artifacts=()) == before


def test_an_artifact_grows_with_its_pieces_and_marks_the_cut():
    view = working(
        Wrote(MOMENT, "stdout", 0, 10, first=True, last=False),
        Wrote(MOMENT, "stderr", 0, 1, first=True, last=False),
        Wrote(MOMENT, "stdout", 10, 5, first=False, last=True, cut=1000),
    )
    stdout, stderr = view.artifacts

    assert (stdout.artifact_id, stdout.size, stdout.cut, stdout.head, stdout.is_complete) == ("stdout", 15, 1000, 10, True)
    assert (stderr.size, stderr.cut, stderr.is_complete) == (1, 0, False)


def test_a_question_stands_in_the_status_message_whole_and_in_the_history():
    view = working(ASKED)
    assert view.status is not None
    message = view.status.message
    assert message is not None
    assert message.metadata is not None

    text, data = message.parts
    assert text.value == "Proceed?"
    assert data.value == {
        "questionId": ENVELOPE.prompt_id,
        "answerSchema": ENVELOPE.response_schema,
        "options": ["y", "n"],
    }
    assert message.metadata == {HITL_PROMPT: envelope_json(ENVELOPE), PROMPT_FACTS: {"rule": "shell.yes-no"}}
    assert (message.task_id, message.context_id, message.extensions) == ("task-1", "context-1", (HITL_PROMPT,))
    assert view.history[-1] == message


def test_an_expired_question_is_still_shown_as_waiting_but_not_open():
    view = working(ASKED, EXAMPLES[6])
    assert view.status is not None
    assert view.status.message is not None
    assert view.status.message.metadata is not None

    assert view.prompt is not None
    assert not view.prompt.is_open
    assert view.status.message.metadata[PROMPT_NEWS]["closed"] == "expired"


def test_the_outcome_leaves_out_what_does_not_apply():
    end = Finished(MOMENT, "end-1", "exit", "application", "It exited with 3.", 3, detail={"by": "nobody", "note": None})

    assert outcome_of(end) == {
        "reason": "exit",
        "fail_kind": "application",
        "exit_code": 3,
        "summary": "It exited with 3.",
        "by": "nobody",
    }


def test_a_rejected_task_names_every_reason_in_words_and_in_metadata():
    refused = EXAMPLES[11]
    assert isinstance(refused, Rejected)
    view = told(Submitted(MOMENT, MESSAGE), refused)
    assert view.status is not None
    assert view.status.message is not None
    assert view.status.message.metadata is not None

    assert view.status.message.parts[0].value == "Rejected: `argv`: not allowed"
    assert view.status.message.metadata[OUTCOME]["reasons"] == [{"field": "argv", "reason": "not allowed"}]


def test_news_of_a_status_are_the_status_itself():
    view = working(ASKED)
    update = status_update(view)

    assert (update.task_id, update.context_id, update.status) == ("task-1", "context-1", view.status)
    assert last_change(view) == MOMENT


def test_a_task_shows_as_much_history_as_was_asked_for():
    view = working(ASKED)

    assert task_of(view).history == view.history
    assert task_of(view, history_length=1).history == view.history[-1:]
    assert task_of(view, history_length=99).history == view.history
    assert task_of(view, history_length=0).history is None
    assert task_of(view).metadata == {RUN_FACTS: {"instance": "box", "policy": "p"}}


def test_a_request_without_the_extension_sees_no_envelope_and_all_the_rest():
    message = working(ASKED).history[-1]
    hidden = hide_envelopes(message)

    assert hidden.metadata == {PROMPT_FACTS: {"rule": "shell.yes-no"}}
    assert hidden.extensions == ()
    assert attrs.evolve(hidden, metadata=message.metadata, extensions=message.extensions) == message


def test_hiding_takes_the_extension_away_and_leaves_others():
    message = Message("m", "agent", (), metadata={HITL_PROMPT: {}}, extensions=("urn:other", HITL_PROMPT))
    hidden = hide_envelopes(message)

    assert (hidden.metadata, hidden.extensions) == (None, ("urn:other",))


def test_a_message_without_an_envelope_is_left_as_it_is():
    assert hide_envelopes(MESSAGE) is MESSAGE
