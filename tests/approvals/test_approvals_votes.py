"""Whose answer counts, how often, and when is it enough?"""

from __future__ import annotations

import json
from datetime import timedelta

from sandboxd.approvals.events import Received, Restarted, Taken, Voted
from sandboxd.approvals.record import Payload, Question, Terms, payload
from sandboxd.approvals.routing import route
from tests.approvals.desk import NOON, Desk, person

ALICE, BOB, CAROL = person("alice"), person("bob"), person("carol")


def test_one_answer_is_enough_where_anybody_may_answer():
    desk = Desk()

    assert desk.vote(ALICE) == "decided"
    assert desk.stands == ("pending", "delivering", "awaiting-approval")
    assert json.loads(desk.sent[0].payload.body) == {"text": "y"}


def test_two_of_three_decide_and_the_one_who_may_not_and_the_one_who_votes_twice_do_not():
    desk = Desk("specific:alice", "specific:bob", "specific:carol", "consensus:2")

    assert desk.vote(person("mallory")) == "not-eligible"
    assert desk.vote(ALICE) == "counted"
    assert desk.vote(ALICE) == "counted"
    assert desk.vote(CAROL, "n") == "counted"
    assert desk.sent == []
    assert desk.vote(BOB) == "decided"
    assert desk.approval.verdict is not None
    assert desk.approval.verdict.persons == ("alice", "bob")


def test_two_accounts_of_one_person_are_one_voter():
    desk = Desk("consensus:2")

    desk.vote(ALICE)

    assert desk.vote(person("alice", account="uid:1000")) == "counted"


def test_a_later_answer_of_a_person_replaces_the_earlier_one():
    desk = Desk("consensus:2")
    desk.vote(ALICE, "n")
    desk.vote(ALICE, "y")

    assert desk.vote(BOB, "n") == "counted"
    assert desk.vote(BOB, "y") == "decided"


def test_what_is_only_commentary_keeps_nobody_from_concurring_and_the_first_one_s_words_are_sent():
    desk = Desk("consensus:2")
    desk.vote(ALICE, {"text": "y", "note": "looks fine"})

    assert desk.vote(BOB, {"text": "y", "note": "me too"}) == "decided"
    assert json.loads(desk.sent[0].payload.body)["note"] == "looks fine"


def test_the_same_value_spelled_otherwise_concurs():
    desk = Desk("consensus:2")
    desk.vote(ALICE, {"count": 3, "text": "y"})

    assert desk.vote(BOB, {"text": "y", "count": 3.0}) == "decided"


def test_an_account_without_the_right_to_answer_does_not_count():
    assert Desk().vote(person("alice", may_answer=False)) == "not-eligible"


def test_who_started_the_mission_does_not_answer_where_the_policy_says_so():
    desk = Desk(barred=frozenset({"alice"}))

    assert desk.vote(ALICE) == "not-eligible"
    assert "their own mission" in desk.log[-1].marks[-1].why
    assert desk.vote(BOB) == "decided"


def test_the_cockpit_s_policy_narrows_any():
    desk = Desk("any", narrowed=route(["specific:bob"]))

    assert desk.vote(ALICE) == "not-eligible"
    assert desk.vote(BOB) == "decided"


def test_the_cockpit_s_policy_widens_nothing():
    desk = Desk("specific:alice", narrowed=route(["any"]))

    assert desk.vote(BOB) == "not-eligible"


def test_both_lists_must_be_met():
    desk = Desk("specific:alice", "specific:bob", narrowed=route(["consensus:2"]))

    assert desk.vote(ALICE) == "counted"
    assert desk.vote(BOB) == "decided"


def test_a_question_that_nobody_may_answer_pauses_its_step_and_says_why():
    desk = Desk("team:ops")

    assert desk.stands == ("pending", "open", "paused")
    assert "team:ops" in desk.approval.reason
    assert desk.alerts
    assert desk.vote(ALICE) == "not-eligible"


def test_who_is_one_of_too_few_changes_nothing_of_why_it_is_paused():
    desk = Desk("specific:alice", "consensus:2")
    why = desk.approval.reason
    assert desk.vote(ALICE, fits=False) == "invalid"
    assert (desk.vote(ALICE), desk.stands) == ("counted", ("pending", "open", "paused"))

    assert desk.approval.reason == why == "2 must agree, and only 1 may answer"


def test_who_may_not_answer_spends_nothing_of_the_budget():
    desk = Desk("specific:alice", schema_budget=1)

    desk.vote(BOB, fits=False)

    assert desk.stands == ("pending", "open", "awaiting-approval")


def test_an_answer_while_another_one_is_delivered_is_told_so():
    desk = Desk()
    desk.vote(ALICE)

    assert desk.vote(BOB, "n") == "closed"
    assert "being delivered" in desk.log[-1].marks[-1].why
    assert len(desk.sent) == 1


def test_an_answer_at_the_closing_time_is_too_late():
    desk = Desk(patience=timedelta(minutes=1))
    desk.now = NOON + timedelta(minutes=1)

    assert desk.vote(ALICE) == "closed"
    assert [mark.outcome for mark in desk.log[-1].marks] == ["expired", "closed"]
    assert desk.stands == ("expired", "closed", "paused")


def test_the_same_envelope_again_changes_nothing():
    desk = Desk()

    assert desk.hear(Received(desk.question, Terms(on_expiry="failed"), "other")) == "repeated"
    assert desk.approval == desk.log[0].approval


def test_the_same_id_with_another_question_is_a_conflict_that_no_answer_passes():
    desk = Desk()

    assert desk.hear(Received(Question(desk.question.prompt_id, "other"), Terms(), "seed")) == "conflict"
    assert desk.stands == ("conflict", "reconcile", "paused")
    assert desk.vote(ALICE) == "closed"


def test_an_answer_that_could_not_be_checked_is_not_taken_and_spends_nothing():
    desk = Desk(schema_budget=1)

    assert desk.hear(Voted(ALICE, "test", payload({"text": "y"}), unjudged="the schema takes too long")) == "unjudged"
    assert desk.stands == ("pending", "open", "awaiting-approval")
    assert desk.sent == []


def test_a_secret_that_the_controller_has_forgotten_is_asked_for_again():
    desk = Desk("consensus:2", payload_class="secret")
    desk.hear(Voted(ALICE, "test", Payload("vault", "mac", is_secret=True)))

    assert desk.hear(Restarted()) == "reopened"
    assert desk.approval.votes == ()


def test_what_an_answer_says_is_in_no_repr():
    desk = Desk()
    desk.vote(ALICE, "hunter2")

    assert "hunter2" not in repr(desk.log)


def test_a_closed_record_keeps_nothing_that_is_not_public():
    desk = Desk(payload_class="redacted")
    desk.vote(ALICE, "hunter2")

    desk.hear(Taken(desk.sent[0].message_id))

    assert [vote.payload.body for vote in desk.approval.votes] == [""]
    assert desk.approval.verdict is not None
    assert desk.approval.verdict.payload.body == ""
