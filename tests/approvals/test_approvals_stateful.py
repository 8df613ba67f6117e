"""Does the reducer hold in long random histories, with real times and more people than the exhaustive search can have?

Each run switches some of what can go wrong off, so that what always wins (somebody else answers first) does not hide the rest.
"""

from __future__ import annotations

from datetime import timedelta

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sandboxd.approvals.events import Deliver, Event, Fence, Inquire, Restarted, ResumeAsked, Settled
from sandboxd.approvals.record import Escalation, Payload, Terms
from sandboxd.approvals.routing import route
from sandboxd.cockpit.ways import way_out
from tests.approvals import asker as model
from tests.approvals.asker import Asker, Traits, Wire
from tests.approvals.desk import NOON, Desk, person

NAMES = ("alice", "bob", "carol", "mallory")
PATTERNS = (
    "any",
    "specific:alice",
    "specific:bob",
    "specific:token:carol",
    "consensus:1",
    "consensus:2",
    "consensus:3",
    "team:x",
)


class OneQuestion(RuleBasedStateMachine):
    """One question from its coming to its end and beyond."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.asker = Asker()
        self.wire: Wire | None = None
        self.reply: Event | None = None

    @initialize(
        patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4),
        narrowed=st.none() | st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2),
        barred=st.frozensets(st.sampled_from(NAMES), max_size=1),
        traits=st.builds(Traits, st.booleans(), st.booleans(), st.integers(0, 3)),
        switches=st.frozensets(st.sampled_from(["rogue", "crash", "cancel", "misfit", "late", "end"])),
        terms=st.builds(
            Terms,
            patience=st.sampled_from([timedelta(seconds=30), timedelta(minutes=10)]),
            on_expiry=st.sampled_from(["paused", "failed", "cancelled"]),
            schema_budget=st.integers(1, 4),
            tries_max=st.integers(1, 3),
            payload_class=st.sampled_from(["public", "redacted"]),
            escalations=st.just((Escalation(timedelta(minutes=2), "on-call"),)),
        ),
    )
    def begin(self, *, patterns, narrowed, barred, traits, switches, terms):
        own = None if narrowed is None else route(narrowed)
        self.desk = Desk(*patterns, **{**attrs.asdict(terms, recurse=False), "narrowed": own, "barred": barred})
        self.traits, self.on = traits, switches
        self.take()

    def take(self) -> None:
        wires = [it for it in self.desk.log[-1].effects if isinstance(it, Deliver | Inquire | Fence)]
        self.wire = wires[-1] if wires else self.wire
        if self.desk.approval.phase == "closed":
            self.wire = None

    @rule(who=st.sampled_from(NAMES), text=st.sampled_from(["y", "y", "n", "bad"]), account=st.booleans(), fits=st.booleans())
    def vote(self, who, text, account, fits):
        fits = fits or "misfit" not in self.on
        self.desk.vote(person(who, account="uid:1" if account else "", may_answer=who != "mallory"), text, fits=fits)
        self.take()

    @precondition(lambda self: self.wire is not None and self.reply is None)
    @rule(data=st.data())
    def call(self, data):
        wire, self.wire = self.wire, None
        match wire:
            case Deliver():
                _, self.asker, self.reply = data.draw(st.sampled_from(list(model.deliver(self.asker, wire, self.traits))))
            case Fence():
                _, self.asker, self.reply = data.draw(st.sampled_from(list(model.fence(self.asker, wire, self.traits))))
            case _:
                _, self.reply = data.draw(st.sampled_from(list(model.inquire(self.asker, self.desk.approval))))

    @precondition(lambda self: self.reply is not None)
    @rule()
    def hear(self):
        reply, self.reply = self.reply, None
        assert reply is not None
        self.desk.hear(reply)
        self.take()

    @precondition(lambda self: self.asker.news)
    @rule()
    def observe(self):
        self.asker, news = self.asker.told()
        self.desk.hear(news)
        self.take()

    @precondition(lambda self: "late" in self.on and self.asker.late)
    @rule(data=st.data())
    def arrive_late(self, data):
        _, self.asker = data.draw(st.sampled_from(list(model.arrive_late(self.asker, self.traits))))

    @precondition(lambda self: "rogue" in self.on and self.asker.prompt == "open")
    @rule()
    def somebody_else_answers(self):
        self.asker = self.asker.rogue()

    @precondition(lambda self: "end" in self.on and not self.asker.has_ended)
    @rule()
    def the_task_ends(self):
        self.asker = self.asker.stop()

    @precondition(lambda self: "crash" in self.on)
    @rule()
    def crash(self):
        self.wire = self.reply = None
        self.desk.hear(Restarted())
        self.take()

    @precondition(lambda self: "cancel" in self.on)
    @rule(who=st.sampled_from(NAMES))
    def cancel(self, who):
        self.desk.cancel(person(who))
        self.take()

    @precondition(lambda self: self.desk.approval.held)
    @rule()
    def resume(self):
        self.desk.hear(ResumeAsked(person("alice"), "test"))
        self.take()

    @rule(seconds=st.sampled_from([1, 5, 31, 400]))
    def wait(self, seconds):
        self.desk.wait(seconds=seconds)
        self.take()

    @invariant()
    def the_record_says_what_the_asker_took(self):
        approval = self.desk.approval
        if approval.phase == "closed":
            assert (approval.status == "responded") == approval.is_ours(self.asker.taken)

    @invariant()
    def something_is_still_going_to_happen(self):
        approval = self.desk.approval
        waits = approval.phase in ("delivering", "backoff", "reconcile") and not approval.held
        assert not waits or self.wire or self.reply or approval.retry_at

    @invariant()
    def what_is_paused_names_its_reason_and_its_way_out(self):
        approval = self.desk.approval
        if approval.held or approval.step == "paused":
            assert approval.reason
            assert way_out(approval)

    @invariant()
    def one_message_id_is_one_payload(self):
        seen: dict[str, Payload] = {}
        for packet in self.desk.sent:
            assert seen.setdefault(packet.message_id, packet.payload) == packet.payload

    @invariant()
    def nobody_is_reminded_more_often_than_agreed(self):
        told = self.desk.told
        assert told.count("reminder") <= 2
        assert told.count("escalation on-call") <= 1
        assert told.count("closed") <= 1


TestOneQuestion = OneQuestion.TestCase
TestOneQuestion.settings = settings(max_examples=150, stateful_step_count=40)


def test_settling_is_for_what_is_held_alone():
    desk = Desk()

    assert desk.hear(Settled(person("alice"), "test", "why")) == "nothing"
    assert desk.now == NOON
