"""What state is a mission in, and what is to be done about it, whatever happened?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sandboxd.approvals.record import Approval, Closing, Question, Terms
from sandboxd.approvals.routing import route
from sandboxd.cockpit.codec import decode_value, encode_value
from sandboxd.cockpit.context import Preseed
from sandboxd.cockpit.missions.mission import FINAL, Mission, Order
from sandboxd.cockpit.missions.steps import (
    Asked,
    Cancelled,
    Event,
    Failed,
    Missing,
    Resumed,
    Sending,
    Shown,
    StillAsks,
    Vanished,
    decide,
    due,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORDER = Order("lab", "runner", "plan", ("node", "x"), "Go.", preseeds=(Preseed("a.*", {"text": "y"}),))
MISSION = Mission("0b5c0f3e-8d4f-4a4b-9f0f-000000000001", ORDER, "token:alice", "alice", may_answer=True, started_at=NOW)


def after(*events: Event, tries_max: int = 3) -> Mission:
    mission = MISSION
    for event in events:
        mission = decide(mission, event, NOW, tries_max=tries_max)
    return mission


def approval(**changes) -> Approval:
    question = Question("0b5c0f3e-8d4f-4a4b-9f0f-00000000000f", "digest")
    asked = Approval(question, Terms(), "seed", NOW, NOW + timedelta(hours=1), "as long as this cockpit waits", ())
    return attrs.evolve(asked, **changes)


OPEN = Asked(1, approval())
TAKEN = Shown("task-1", "working")
ANSWERED = Asked(1, approval(phase="closed", status="responded", step="running"))
BARREN = Asked(1, approval(step="paused", reason="no responder rule is understood", routings=(route(["team:x"]),)))
OTHERS = Asked(1, approval(phase="closed", status="conflict", step="paused", reason="somebody else answered"))
EXPIRED = Asked(1, approval(phase="closed", status="expired", step="paused", reason="nobody answered in time"))
COMPLETED = Shown("task-1", "completed", "exit 0")


@pytest.mark.parametrize(
    ("events", "state", "act"),
    [
        ((), "starting", "send"),
        ((Sending(),), "starting", "find"),  # a kill after it: it may have arrived
        ((Sending(), Failed("send", "no route", never_left=True)), "starting", "send"),
        ((Sending(), Failed("send", "timed out")), "starting", "find"),
        ((Sending(), Missing(acts_once=True)), "starting", "send"),
        ((Sending(), Missing(acts_once=False)), "paused", None),
        ((Sending(), Missing(acts_once=False), Resumed()), "starting", "send"),
        ((Sending(), Failed("send", "HTTP 400", refused=True)), "paused", None),
        ((Sending(), TAKEN), "running", None),
        ((Sending(), TAKEN, Failed("send", "timed out")), "running", None),
        ((TAKEN, OPEN), "awaiting-approval", None),
        ((OPEN, TAKEN), "awaiting-approval", None),
        ((TAKEN, Asked(1, approval(step="paused", reason="held", held=True))), "paused", None),
        ((TAKEN, BARREN), "paused", None),
        ((TAKEN, OPEN, ANSWERED), "running", None),
        ((TAKEN, OPEN, ANSWERED, COMPLETED), "completed", None),
        ((TAKEN, OPEN, COMPLETED), "awaiting-approval", None),  # its answer is being found out
        ((TAKEN, OPEN, COMPLETED, ANSWERED), "completed", None),
        ((TAKEN, OPEN, OTHERS), "paused", None),
        ((TAKEN, OPEN, OTHERS, COMPLETED), "paused", None),
        ((TAKEN, OPEN, OTHERS, COMPLETED, Resumed()), "completed", None),
        ((TAKEN, OPEN, OTHERS, COMPLETED, Cancelled("no")), "cancelled", None),
        ((TAKEN, OPEN, OTHERS, Shown("task-1", "failed", "exit 1")), "failed", None),
        ((TAKEN, OPEN, OTHERS, Resumed()), "running", "look"),
        ((TAKEN, OPEN, EXPIRED, Resumed(), StillAsks("it asks still")), "paused", None),
        ((TAKEN, OPEN, EXPIRED, Asked(2, approval())), "awaiting-approval", None),
        ((TAKEN, OPEN, EXPIRED, Asked(2, approval()), attrs.evolve(ANSWERED, number=2)), "paused", None),
        ((TAKEN, Asked(1, approval(phase="closed", status="expired", step="failed", reason="late"))), "failed", "stop"),
        ((TAKEN, Shown("task-1", "input-required", observed="it has no envelope")), "paused", None),
        ((TAKEN, Shown("task-1", "input-required", observed="it has no envelope"), TAKEN), "running", None),
        ((Shown("task-1", "rejected", "no policy"),), "failed", None),
        ((Cancelled("no"),), "cancelled", None),
        ((Sending(), Cancelled("no")), "starting", "find"),
        ((Sending(), Cancelled("no"), Missing(acts_once=True)), "cancelled", None),
        ((Sending(), Cancelled("no"), TAKEN), "running", "stop"),
        ((Sending(), Cancelled("no"), Missing(acts_once=True), TAKEN), "cancelled", "stop"),  # a straggler
        ((TAKEN, Cancelled("no"), Shown("task-1", "canceled")), "cancelled", None),
        ((TAKEN, Cancelled("no"), COMPLETED), "completed", None),
        ((TAKEN, OPEN, OTHERS, Cancelled("no"), COMPLETED), "cancelled", None),
        ((TAKEN, OPEN, Cancelled("no")), "awaiting-approval", "close"),
        ((TAKEN, Vanished("unknown there")), "paused", None),
        ((TAKEN, Vanished("unknown there"), Resumed()), "running", "look"),
        ((TAKEN, Vanished("unknown there"), Cancelled("no")), "cancelled", "stop"),
        ((TAKEN, Vanished("unknown there"), TAKEN), "running", None),
    ],
)
def test_a_mission_stands_as_the_approval_workflow_says(events, state, act):
    mission = after(*events)

    assert (mission.standing.state, due(mission)) == (state, act)


def test_a_question_that_nobody_may_answer_is_not_said_to_go_on_by_itself():
    standing = after(TAKEN, BARREN).standing

    assert standing.reason == "no responder rule is understood"
    assert "answer it at its host" in standing.way_out


def test_a_budget_that_is_spent_pauses_and_a_person_renews_it():
    lost: list[Event] = [Sending(), Failed("send", "timed out"), Failed("find", "no route"), Failed("find", "no route")]

    mission = after(*lost)
    assert (mission.standing.state, mission.hold, due(mission)) == ("paused", "unreachable", None)
    again = decide(mission, Resumed(), NOW)
    assert (again.standing.state, again.tries, due(again)) == ("starting", 0, "find")


def test_waits_between_tries_grow():
    once = after(Sending(), Failed("send", "timed out"))
    twice = after(Sending(), Failed("send", "timed out"), Failed("find", "timed out"))

    assert (once.retry_at, twice.retry_at) == (NOW + timedelta(seconds=1), NOW + timedelta(seconds=2))


def test_a_message_keeps_its_id_until_the_host_has_refused_it():
    unsure = after(Sending(), Failed("send", "timed out"), Missing(acts_once=True), Sending())
    refused = after(Sending(), Failed("send", "HTTP 400", refused=True), Resumed())

    assert unsure.message_id == MISSION.message_id
    assert refused.message_id != MISSION.message_id


def test_a_cancel_waits_for_a_question_that_is_closing():
    closing = Closing("cancelled", "cancelled", "no", may_cancel=True)
    mission = after(TAKEN, OPEN, Cancelled("no"), Asked(1, approval(phase="reconcile", closing=closing)))

    assert due(mission) is None


def test_what_is_on_disk_is_read_back_equal():
    mission = after(Sending(), TAKEN, OPEN, OTHERS, Cancelled("no"))

    assert decode_value(encode_value(mission), Mission) == mission


TEXTS = st.just("why")
ACTS = st.sampled_from(["send", "find", "stop", "look"])
EVENTS = st.one_of(
    st.just(Sending()),
    st.builds(Failed, ACTS, TEXTS, st.booleans(), st.booleans()),
    st.builds(Missing, st.booleans()),
    st.builds(
        Shown, st.just("task-1"), st.sampled_from(["working", "input-required", "completed", "failed", "canceled"]), TEXTS
    ),
    st.builds(StillAsks, st.just("it asks still")),
    st.sampled_from([OPEN, ANSWERED, OTHERS, EXPIRED, Asked(2, approval())]),
    st.builds(Vanished, st.just("gone")),
    st.just(Resumed()),
    st.builds(Cancelled, st.just("no")),
)


class Histories(RuleBasedStateMachine):
    """Whatever happens in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.mission = MISSION

    @rule(event=EVENTS)
    def happen(self, event: Event) -> None:
        before, self.mission = self.mission, decide(self.mission, event, NOW, tries_max=3)
        if before.standing.is_final:
            assert self.mission.standing.state == before.standing.state
        assert self.mission.rev == before.rev + (self.mission != before)

    @invariant()
    def what_is_paused_names_its_reason_and_its_way_out(self) -> None:
        standing = self.mission.standing
        if standing.state == "paused":
            assert standing.reason
            assert standing.way_out
        if standing.state in ("failed", "cancelled"):
            assert standing.reason

    @invariant()
    def nothing_is_sent_while_a_message_may_have_arrived(self) -> None:
        if self.mission.unsure or self.mission.task_id is not None or self.mission.cancel:
            assert due(self.mission) != "send"

    @invariant()
    def what_goes_on_by_itself_has_something_to_do_or_to_wait_for(self) -> None:
        mission = self.mission
        if mission.standing.state == "starting":
            assert due(mission) in ("send", "find")
        if mission.cancel and mission.standing.state not in FINAL and not mission.questions and not mission.hold:
            assert due(mission) in ("find", "stop")


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=15, deadline=None)
