"""Every history of one question, as far as the model goes: breadth first, so that a counterexample is a shortest one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import attrs

from sandboxd.approvals.events import (
    CancelAsked,
    Decided,
    Deliver,
    Event,
    Fence,
    Inquire,
    Received,
    Restarted,
    ResumeAsked,
    Ticked,
    Voted,
)
from sandboxd.approvals.record import Approval, Payload, Question, Terms, payload
from sandboxd.approvals.reducer import begin
from sandboxd.approvals.routing import Principal
from sandboxd.errors import Problem
from tests.approvals import asker as model
from tests.approvals.asker import Asker, Traits, Wire
from tests.approvals.laws import broken

Rules = Callable[[Approval, Event, datetime], Decided]

PROMPT_ID = "5f0e8a52-0d4f-4d0e-9a51-6a4a7b9b1c11"
START = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE = START + timedelta(minutes=5)
PATIENCE = timedelta(hours=1)
ALICE, BOB, MALLORY = (Principal(f"token:{name}", name, may_answer=True) for name in ("alice", "bob", "mallory"))
YES, BAD = payload({"text": "y"}), payload({"text": "bad"})
SECRET = Payload("vault-1", "mac-1", is_secret=True)


@attrs.frozen
class Scene:
    """What is tried: who may answer, what they say, and what the asker is like."""

    patterns: tuple[str, ...] | None = None
    answers: tuple[tuple[Principal, Payload], ...] = ((ALICE, YES), (BOB, YES), (ALICE, BAD))
    traits: Traits = attrs.field(factory=Traits)
    terms: Terms = attrs.field(factory=lambda: Terms(schema_budget=2, tries_max=2, patience=PATIENCE))
    restarts: int = 1
    cancels: int = 1
    resumes: int = 1
    misfits: bool = True
    rogue: bool = True
    ends: bool = False


@attrs.frozen(cache_hash=True)
class World:
    """Everything that a future can depend on; times are told apart by whether the deadline has passed.

    Records are compared by identity: `_Rules` makes each of them once. `wire`: the call that is to be made
    next; a newer one takes the place of one that was not made yet. `reply`: what a call came to, not yet heard.
    """

    approval: Approval = attrs.field(eq=id)
    asker: Asker
    wire: Wire | None = None
    reply: Event | None = None
    is_late: bool = False
    restarts: int = 0
    cancels: int = 0
    resumes: int = 0


@attrs.frozen
class Violation:
    """A law that is broken, and the shortest way there."""

    law: str
    steps: tuple[str, ...]


@attrs.frozen
class Searched:
    """How far it went, and what it found."""

    states: int
    violation: Violation | None
    outcomes: frozenset[str]


def search(scene: Scene, decide: Rules, *, states_max: int = 400_000) -> Searched:
    """Look at every state that can be reached; stops at the first violation."""
    received = Received(Question(PROMPT_ID, "digest", scene.patterns, DEADLINE + scene.terms.margin), scene.terms, "seed")
    rules = _Rules(decide)
    first = World(rules.once(begin(received, START).approval), Asker())
    seen: dict[World, tuple[World, str] | None] = {first: None}
    waiting, outcomes = deque([first]), set[str]()
    while waiting:
        world = waiting.popleft()
        for step, after, law in _steps(scene, rules, world):
            if law:
                return Searched(len(seen), Violation(law, (*_way(seen, world), step)), frozenset(outcomes))
            if after in seen:
                continue
            seen[after] = (world, step)
            waiting.append(after)
            if after.approval.phase == "closed" or after.approval.held:
                outcomes.add(f"{after.approval.status}/{after.approval.phase}")
            assert len(seen) <= states_max, "the model has more states than a search in CI may look at"
    return Searched(len(seen), None, frozenset(outcomes))


def _steps(scene: Scene, rules: _Rules, world: World) -> Iterator[tuple[str, World, str]]:
    approval, asker = world.approval, world.asker
    # One call of a question at a time: its reply is heard, or its silence, before the next one is made.
    if world.reply is not None:
        yield _decide(rules, attrs.evolve(world, reply=None), f"heard: {world.reply}", world.reply)
    elif world.wire is not None:
        yield from _done(scene, attrs.evolve(world, wire=None), world.wire)
    for name, after in model.arrive_late(asker, scene.traits):
        yield _unchanged(name, attrs.evolve(world, asker=after))
    if asker.prompt == "open" and scene.rogue:
        yield _unchanged("somebody else answers", attrs.evolve(world, asker=asker.rogue()))
    if not asker.has_ended and scene.ends:
        yield _unchanged("the task ends by itself", attrs.evolve(world, asker=asker.stop()))
    if asker.news:
        told, news = asker.told()
        yield _decide(rules, attrs.evolve(world, asker=told), f"heard: {news}", news)
    if not world.is_late:
        yield _unchanged("the deadline passes", attrs.evolve(world, is_late=True))
    if approval.retry_at is not None or (world.is_late and approval.phase == "open"):
        yield _decide(rules, world, "a timer fires", Ticked())
    if world.restarts < scene.restarts:
        crashed = attrs.evolve(world, wire=None, reply=None, restarts=world.restarts + 1)
        yield _decide(rules, crashed, "the controller dies and starts again", Restarted())
    if approval.phase == "closed":
        return
    for who, said in scene.answers:
        yield _decide(rules, world, f"{who.person} answers {said.sense}", Voted(who, "test", said))
    if approval.phase == "open" and scene.misfits:
        misfit = Voted(ALICE, "test", YES, (Problem("/text", "does not fit"),))
        yield _decide(rules, world, "alice's answer does not fit", misfit)
    if world.cancels < scene.cancels:
        asked = attrs.evolve(world, cancels=world.cancels + 1)
        yield _decide(rules, asked, "alice cancels", CancelAsked(ALICE, "test", ""))
    if approval.held and world.resumes < scene.resumes:
        asked = attrs.evolve(world, resumes=world.resumes + 1)
        yield _decide(rules, asked, "alice resumes", ResumeAsked(ALICE, "test"))


def _done(scene: Scene, world: World, effect: Wire) -> Iterator[tuple[str, World, str]]:
    """An effect is done: the asker changes now, what it said is heard later."""

    def heard(name: str, asker: Asker, reply: Event) -> tuple[str, World, str]:
        return _unchanged(name, attrs.evolve(world, asker=asker, reply=reply))

    match effect:
        case Deliver():
            sent = model.deliver(world.asker, effect, scene.traits)
            yield from (heard(f"sent: {name}", after, reply) for name, after, reply in sent)
        case Fence():
            stopped = model.fence(world.asker, effect, scene.traits)
            yield from (heard(name, after, reply) for name, after, reply in stopped)
        case Inquire():
            yield from (heard(name, world.asker, reply) for name, reply in model.inquire(world.asker, world.approval))


def _decide(rules: _Rules, world: World, step: str, event: Event) -> tuple[str, World, str]:
    approval, wire, law = rules.decide(world.approval, event, is_late=world.is_late)
    if approval.phase == "closed":  # nothing that is heard changes it: all that can follow is what the asker takes
        quiet = attrs.evolve(world.asker, news=False)
        after = World(approval, quiet, is_late=True)
    else:
        after = attrs.evolve(world, approval=approval, wire=wire or world.wire)
    return step, after, law or _lies(after) or _is_stuck(after)


def _unchanged(step: str, world: World) -> tuple[str, World, str]:
    return step, world, _lies(world)


def _lies(world: World) -> str:
    """INV-TRUTH, of the record against what the asker really took."""
    approval, asker = world.approval, world.asker
    if approval.phase != "closed":
        return ""
    if approval.status == "responded":
        return "" if approval.accepted == asker.taken else "INV-TRUTH: it says responded, and the asker took something else"
    return "INV-TRUTH: it closed without an answer, and our answer was taken" if approval.is_ours(asker.taken) else ""


def _is_stuck(world: World) -> str:
    """Whether nothing will ever happen to it by itself, and nobody was told."""
    approval = world.approval
    if approval.phase in ("open", "closed") or approval.held or approval.retry_at or world.wire or world.reply:
        return ""
    return f"INV-ALIVE: it waits in {approval.phase} for nothing"


class _Rules:
    """The reducer, asked once for each record and event; each record that comes of it is made once."""

    def __init__(self, decide: Rules) -> None:
        self._decide = decide
        self._records: dict[Approval, Approval] = {}
        self._decisions: dict[tuple[int, Event, bool], tuple[Approval, Wire | None, str]] = {}

    def once(self, approval: Approval) -> Approval:
        normal = _normal(approval)
        return self._records.setdefault(normal, normal)

    def decide(self, approval: Approval, event: Event, *, is_late: bool) -> tuple[Approval, Wire | None, str]:
        """The record that follows, what goes out, and the law that is broken."""
        if (known := self._decisions.get((id(approval), event, is_late))) is not None:
            return known
        now = DEADLINE if is_late else START
        before = approval if approval.retry_at is None else attrs.evolve(approval, retry_at=now)
        decided = self._decide(before, event, now)
        wires = [effect for effect in decided.effects if isinstance(effect, Deliver | Inquire | Fence)]
        result = self.once(decided.approval), wires[-1] if wires else None, broken(before, event, decided, now)
        self._decisions[id(approval), event, is_late] = result
        return result


def _normal(approval: Approval) -> Approval:
    """The same record with what no future depends on made equal: revision, and the times of what has happened."""
    return attrs.evolve(
        approval,
        rev=1,
        reason=approval.reason and "why",
        retry_at=START if approval.retry_at else None,
        closed_at=START if approval.closed_at else None,
        reminders=(),
        votes=tuple(attrs.evolve(vote, at=START) for vote in approval.votes),
        verdicts=tuple(attrs.evolve(verdict, at=START) for verdict in approval.verdicts),
        closing=attrs.evolve(approval.closing, reason="why") if approval.closing else None,
    )


def _way(seen: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    steps, before = list[str](), seen[world]
    while before is not None:
        world, step = before
        steps.append(step)
        before = seen[world]
    return tuple(reversed(steps))
