"""Who may answer, by every pattern and their combinations?"""

from __future__ import annotations

import pytest

from sandboxd.approvals.routing import Principal, route

ALICE, BOB = (Principal(f"token:{name}", name, may_answer=True) for name in ("alice", "bob"))


@pytest.mark.parametrize(
    ("patterns", "may", "votes"),
    [
        (None, ("alice", "bob"), 1),
        (["any"], ("alice", "bob"), 1),
        (["specific:alice"], ("alice",), 1),
        (["specific:token:alice"], ("alice",), 1),
        (["any", "specific:alice"], ("alice",), 1),
        (["specific:alice", "specific:bob"], ("alice", "bob"), 1),
        (["specific:alice", "specific:bob", "consensus:2"], ("alice", "bob"), 2),
        (["consensus:2", "consensus:3"], ("alice", "bob"), 3),
        (["consensus:1"], ("alice", "bob"), 1),
        (["team:ops", "any"], ("alice", "bob"), 1),
        (["team:ops", "specific:bob"], ("bob",), 1),
        (["team:ops"], (), 1),
        (["ANY"], (), 1),
        (["any "], (), 1),
        (["specific:"], (), 1),
        (["specific:alice bob"], (), 1),
        (["consensus:0"], (), 1),
        (["consensus:02"], (), 1),
        (["consensus:" + "9" * 4000], (), 1),
        ([], (), 1),
    ],
)
def test_a_list_of_patterns_lets_exactly_these_answer(patterns, may, votes):
    routing = route(patterns)

    assert tuple(who.person for who in (ALICE, BOB) if routing.allows(who)) == may
    assert routing.votes == votes


def test_a_list_of_unknown_patterns_is_a_dead_end_that_names_them():
    assert "team:ops" in route(["team:ops"]).dead_end


def test_fewer_named_than_must_agree_is_a_dead_end():
    assert "only 1 may answer" in route(["specific:alice", "consensus:2"]).dead_end


def test_a_list_that_can_be_met_is_no_dead_end():
    assert route(["specific:alice", "specific:bob", "consensus:2"]).dead_end == ""
    assert route(["consensus:7"]).dead_end == ""
