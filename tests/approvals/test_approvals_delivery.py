"""What follows from what the asker says, and from what it does not say?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from sandboxd.approvals.events import (
    Contested,
    Fence,
    Fenced,
    Inquire,
    Learnt,
    Misfit,
    Moved,
    Restarted,
    ResumeAsked,
    Settled,
    Taken,
    Ticked,
    Undelivered,
)
from sandboxd.approvals.record import Escalation
from sandboxd.approvals.timing import next_wake
from tests.approvals.desk import NOON, Desk, person

ALICE, BOB = person("alice"), person("bob")


def delivering(**terms) -> tuple[Desk, str]:
    desk = Desk(**terms)
    desk.vote(ALICE)
    return desk, desk.sent[0].message_id


def test_an_answer_that_was_taken_closes_the_question_everywhere():
    desk, message_id = delivering()

    assert desk.hear(Taken(message_id)) == "responded"
    assert desk.stands == ("responded", "closed", "running")
    assert desk.told == ["closed"]


def test_a_409_that_names_our_own_message_is_our_answer():
    desk, message_id = delivering()

    desk.hear(Undelivered(message_id, "no reply"))
    desk.wait(seconds=2)
    desk.hear(Contested(message_id, message_id, "answered already"))

    assert desk.stands == ("responded", "closed", "running")


def test_a_409_that_names_another_message_pauses_the_step():
    desk, message_id = delivering()

    assert desk.hear(Contested(message_id, "somebody-s", "answered already")) == "conflict"
    assert desk.stands == ("conflict", "closed", "paused")
    assert "somebody-s" in desk.approval.reason


def test_a_409_that_names_nothing_is_looked_into():
    desk, message_id = delivering()

    desk.hear(Contested(message_id, None, "unknown"))
    assert desk.stands == ("conflict", "reconcile", "paused")
    assert desk.log[-1].effects == (Inquire(),)
    desk.hear(Learnt("accepted", message_id))
    assert desk.stands == ("responded", "closed", "running")


def test_a_422_asks_the_people_again_with_the_same_prompt_and_another_message():
    desk, message_id = delivering()

    assert desk.hear(Misfit(message_id, "too long")) == "invalid"
    assert desk.stands == ("invalid", "open", "awaiting-approval")
    assert "too long" in desk.approval.reason
    desk.vote(BOB, "n")
    assert desk.sent[1].message_id != message_id


def test_answers_that_do_not_fit_here_and_there_share_one_budget():
    desk = Desk(schema_budget=3)
    desk.vote(ALICE, fits=False)
    desk.vote(ALICE)
    desk.hear(Misfit(desk.sent[0].message_id, "no"))

    assert desk.vote(ALICE, fits=False) == "delivery-failed"
    assert desk.stands[0::2] == ("delivery-failed", "paused")
    assert desk.log[-1].effects == (Fence(may_cancel=False),)


def test_a_budget_that_is_spent_before_anything_left_closes_at_once():
    desk = Desk(schema_budget=1)

    desk.vote(ALICE, fits=False)

    assert desk.stands == ("delivery-failed", "closed", "paused")


def test_silence_is_tried_again_with_the_very_same_message_and_later_each_time():
    desk, message_id = delivering(tries_max=3, backoff=timedelta(seconds=2))

    assert desk.hear(Undelivered(message_id, "no reply")) == "retrying"
    assert desk.stands == ("delivery-failed", "backoff", "awaiting-approval")
    assert next_wake(desk.approval) == NOON + timedelta(seconds=2)
    assert desk.wait(seconds=1) == "nothing"
    assert desk.wait(seconds=1) == "retrying"
    desk.hear(Undelivered(message_id, "no reply"))
    assert desk.approval.retry_at == desk.now + timedelta(seconds=4)
    desk.wait(seconds=4)
    assert [packet.message_id for packet in desk.sent] == [message_id] * 3
    assert desk.hear(Undelivered(message_id, "no reply")) == "delivery-failed"
    assert desk.stands == ("delivery-failed", "reconcile", "paused")
    assert desk.alerts


def test_a_refusal_that_another_try_cannot_mend_is_not_tried_again():
    desk, message_id = delivering()

    assert desk.hear(Undelivered(message_id, "403", is_final=True)) == "delivery-failed"
    assert desk.stands == ("delivery-failed", "reconcile", "paused")


def test_a_person_lets_a_delivery_that_was_given_up_go_on():
    desk, message_id = delivering(tries_max=1)
    desk.hear(Undelivered(message_id, "no route"))
    desk.hear(Learnt("open"))
    assert desk.approval.held

    desk.hear(ResumeAsked(ALICE, "test"))
    desk.hear(Learnt("open"))

    assert [packet.message_id for packet in desk.sent] == [message_id] * 2


def test_after_a_restart_it_is_found_out_before_anything_is_sent_again():
    desk, message_id = delivering()

    desk.hear(Restarted())
    assert desk.log[-1].effects == (Inquire(),)
    desk.hear(Learnt("open"))
    assert [packet.message_id for packet in desk.sent] == [message_id] * 2


def test_a_cancel_stops_attempts_and_ends_in_what_became_of_the_one_under_way():
    desk, message_id = delivering()

    assert desk.cancel(BOB) == "cancelling"
    assert desk.stands == ("pending", "reconcile", "awaiting-approval")
    desk.hear(Undelivered(message_id, "no reply"))
    desk.hear(Fenced(holds=True))
    desk.hear(Learnt("lost"))
    assert desk.stands == ("cancelled", "closed", "cancelled")
    assert "token:bob" in desk.approval.reason
    assert len(desk.sent) == 1


def test_a_cancel_that_came_too_late_is_an_answer():
    desk, message_id = delivering()

    desk.cancel(BOB)
    desk.hear(Taken(message_id))

    assert desk.stands == ("responded", "closed", "running")


def test_a_fence_that_cannot_be_confirmed_keeps_the_record_open_and_calls_for_a_person():
    desk, _ = delivering(tries_max=2)
    desk.cancel(BOB)

    for _ in range(2):
        desk.hear(Fenced(holds=False, why="no route"))
        desk.wait(minutes=1)

    assert desk.stands == ("pending", "reconcile", "paused")
    assert desk.approval.held
    assert desk.alerts == ["no route"]
    assert desk.cancel(BOB) == "cancelling"


def test_a_person_s_word_closes_what_cannot_be_found_out_and_is_recorded_as_such():
    desk, _ = delivering(tries_max=1)
    desk.cancel(BOB)
    assert desk.hear(Settled(ALICE, "test", "the host burnt down")) == "nothing"
    desk.hear(Fenced(holds=False, why="no route"))

    assert desk.hear(Settled(ALICE, "test", "the host burnt down")) == "settled"
    assert desk.stands == ("conflict", "closed", "paused")
    assert "on the word of token:alice" in desk.approval.reason


@pytest.mark.parametrize("step", ["paused", "failed", "cancelled"])
def test_expiry_is_what_the_policy_says_and_never_an_answer(step):
    desk = Desk(patience=timedelta(minutes=5), on_expiry=step)

    assert desk.wait(minutes=5) == "nothing"
    assert desk.stands[0::2] == ("expired", step)
    assert desk.sent == []
    if step == "paused":
        assert desk.approval.phase == "closed"
    else:
        assert desk.log[-1].effects == (Fence(may_cancel=True),)


def test_a_deadline_that_comes_while_an_answer_is_delivered_leaves_the_answer_its_chance():
    desk, message_id = delivering(patience=timedelta(seconds=3))

    desk.hear(Undelivered(message_id, "no reply"))
    desk.wait(seconds=4)
    desk.hear(Taken(message_id))

    assert desk.stands == ("responded", "closed", "running")
    assert "after the closing time" in desk.approval.reason


def test_a_question_closes_before_the_asker_s_deadline_so_that_the_answer_still_arrives():
    desk = Desk(deadline=NOON + timedelta(minutes=1), margin=timedelta(seconds=2))

    assert desk.approval.closes_at == NOON + timedelta(seconds=58)
    assert desk.approval.closes_because == "the asker's deadline"


def test_a_question_whose_deadline_has_passed_is_recorded_as_expired():
    desk = Desk(deadline=NOON - timedelta(seconds=1))

    assert desk.stands == ("expired", "closed", "paused")


def test_people_are_reminded_twice_and_never_after_the_end():
    desk = Desk(patience=timedelta(minutes=10))

    desk.wait(minutes=5)
    desk.wait(minutes=1)
    desk.wait(minutes=2)
    desk.vote(ALICE)
    desk.wait(minutes=1)

    assert desk.told == ["reminder", "reminder"]


def test_reminders_that_a_suspend_has_missed_come_as_one():
    desk = Desk(patience=timedelta(minutes=10))

    desk.wait(minutes=9)

    assert desk.told == ["reminder"]


def test_an_escalation_tells_more_people_and_lets_no_more_answer():
    desk = Desk("specific:alice", escalations=(Escalation(timedelta(minutes=3), "on-call"),), patience=timedelta(minutes=30))
    assert desk.vote(BOB) == "not-eligible"

    assert desk.wait(minutes=3) == "escalated"

    assert desk.told == ["escalation on-call"]
    assert desk.vote(BOB) == "not-eligible"


@pytest.mark.parametrize(("has_failed", "step"), [(True, "failed"), (False, "paused")])
def test_an_asker_that_is_gone_leaves_a_conflict_with_its_reason(has_failed, step):
    desk = Desk()

    assert desk.hear(Moved("the task ended", has_failed=has_failed)) == "withdrawn"
    assert desk.stands == ("conflict", "closed", step)
    assert "the asker is gone" in desk.approval.reason


def test_news_that_is_told_again_wakes_no_record_that_is_held():
    desk, message_id = delivering(tries_max=1)
    desk.hear(Undelivered(message_id, "no reply"))
    desk.hear(Moved("the task is working"))
    desk.hear(Learnt("unknown"))
    assert desk.approval.held
    alerts = len(desk.alerts)

    assert desk.hear(Moved("the task is working")) == "nothing"
    assert len(desk.alerts) == alerts
    assert desk.hear(Moved("the task is completed")) == "reconciling"


def test_a_prompt_that_is_asked_still_after_a_refusal_is_not_answered_with_what_was_refused():
    desk, message_id = delivering()
    desk.hear(Misfit(message_id, "no"))
    desk.hear(Moved("for a moment"))

    desk.hear(Learnt("open"))

    assert desk.approval.phase == "open"
    assert len(desk.sent) == 1


@pytest.mark.parametrize(
    "event",
    [
        Ticked(),
        Restarted(),
        Moved("it ended"),
        Fenced(holds=True),
        Learnt("open"),
        Learnt("lost"),
        Learnt("accepted", "somebody-s"),
        Taken("somebody-s"),
        Misfit("somebody-s", "no"),
        Contested("somebody-s", None, "no"),
        Undelivered("somebody-s", "no"),
        ResumeAsked(ALICE, "test"),
        Settled(ALICE, "test", "why"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_closed_record_never_changes(event):
    desk, message_id = delivering()
    desk.hear(Taken(message_id))
    closed = desk.approval

    desk.hear(event)
    desk.wait(hours=48)
    desk.cancel(ALICE)

    assert desk.approval == closed
