"""Does the reducer hold in every history that the model has, and is each of the three shortcuts caught?

`SANDBOXD_SEARCH_STATES=5000000` looks at the whole scene, some minutes long; CI at five parts of it.
"""

from __future__ import annotations

import os
from datetime import datetime

import attrs
import pytest

from sandboxd.approvals.closing import close_unanswered
from sandboxd.approvals.events import CancelAsked, Contested, Decided, Event, Fence, Learnt, Mark
from sandboxd.approvals.record import Approval, Terms
from sandboxd.approvals.reducer import decide
from tests.approvals.asker import Traits
from tests.approvals.search import ALICE, BAD, BOB, PATIENCE, SECRET, YES, Scene, search

PLAIN = Scene(answers=((ALICE, YES),), misfits=False, restarts=0, cancels=0, resumes=0, traits=Traits(delays=1))
BUDGETS = Terms(schema_budget=2, tries_max=2, patience=PATIENCE)

SCENES = {
    "cancelled, restarted, delayed and doubled": attrs.evolve(PLAIN, cancels=1, restarts=1, resumes=1, traits=Traits(delays=2)),
    "an asker that tells nothing and retires nothing, and whose validator has moods": attrs.evolve(
        PLAIN, answers=((ALICE, YES), (ALICE, BAD)), restarts=1, traits=Traits(names_accepted=False, can_retire=False, delays=1)
    ),
    "two must agree, and a third says something else": attrs.evolve(
        PLAIN, patterns=("consensus:2",), answers=((ALICE, YES), (BOB, YES), (BOB, BAD)), misfits=True, cancels=1
    ),
    "a secret that a restart forgets": attrs.evolve(PLAIN, answers=((ALICE, SECRET),), restarts=2, resumes=1),
    "a task that ends by itself, and a policy that fails what nobody answered": attrs.evolve(
        PLAIN, ends=True, cancels=1, terms=attrs.evolve(BUDGETS, on_expiry="failed")
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_no_history_breaks_a_law(scene: Scene):
    found = search(scene, decide)

    assert found.violation is None, f"{found.violation.law}\n" + "\n".join(found.violation.steps)
    assert "responded/closed" in found.outcomes
    assert found.states > 1000, "the model has lost its subject"


@pytest.mark.skipif("SANDBOXD_SEARCH_STATES" not in os.environ, reason="NOT TESTED HERE: it takes minutes; see above")
@pytest.mark.parametrize("traits", [Traits(), Traits(names_accepted=False, can_retire=False)], ids=["helpful", "bare"])
def test_no_history_of_the_whole_scene_breaks_a_law(traits: Traits):
    found = search(Scene(traits=traits), decide, states_max=int(os.environ["SANDBOXD_SEARCH_STATES"]))

    assert found.violation is None, f"{found.violation.law}\n" + "\n".join(found.violation.steps)
    assert found.states > 100_000


def recognises_nothing(approval: Approval, event: Event, now: datetime) -> Decided:
    """Shortcut: a 409 is a 409, whichever message the asker names."""
    if isinstance(event, Contested) and approval.is_ours(event.accepted):
        event = attrs.evolve(event, accepted="somebody's")
    return decide(approval, event, now)


def cancels_at_once(approval: Approval, event: Event, now: datetime) -> Decided:
    """Shortcut: what is cancelled is cancelled, whatever is under way."""
    if isinstance(event, CancelAsked) and approval.phase in ("delivering", "backoff"):
        closed = attrs.evolve(
            approval, rev=approval.rev + 1, phase="closed", status="cancelled", reason="cancelled", retry_at=None
        )
        return Decided(closed, marks=(Mark("cancelled"),))
    return decide(approval, event, now)


def closes_without_a_fence(approval: Approval, event: Event, now: datetime) -> Decided:
    """Shortcut: what the asker has not taken by now it will not take."""
    decided = decide(approval, event, now)
    is_open = isinstance(event, Learnt) and event.finding == "open"
    if any(isinstance(effect, Fence) for effect in decided.effects) or (is_open and decided.approval.held):
        closed = close_unanswered(attrs.evolve(decided.approval, held=False), "given up", now)
        return attrs.evolve(closed, approval=attrs.evolve(closed.approval, rev=approval.rev + 1))
    return decided


@pytest.mark.parametrize(
    ("shortcut", "steps_max"),
    [(recognises_nothing, 8), (cancels_at_once, 4), (closes_without_a_fence, 8)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_shortcut_is_caught_with_a_shortest_history(shortcut, steps_max):
    scene = attrs.evolve(PLAIN, cancels=1)

    found = search(scene, shortcut)

    assert found.violation is not None
    assert found.violation.law.startswith("INV-TRUTH")
    assert len(found.violation.steps) <= steps_max
