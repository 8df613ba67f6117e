"""Is a typed secret taken out of the output, wherever it is cut, and nothing else?"""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sandboxd.a2a.model import Message, Part
from sandboxd.live.veil import MARK, Veil, without_secret

SECRET = "hunter22"


def covered(veil: Veil, *pieces: bytes, at: float = 0.0) -> bytes:
    return b"".join(veil.cover(piece, at) for piece in pieces) + veil.rest()


@given(st.binary(max_size=20), st.binary(max_size=20), st.lists(st.integers(0, 48), max_size=6))
def test_a_secret_is_covered_wherever_the_output_is_cut(before: bytes, after: bytes, cuts: list[int]) -> None:
    data = before + SECRET.encode() + after
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    veil = Veil()
    veil.add(SECRET, 0.0)

    shown = covered(veil, *(data[start:stop] for start, stop in itertools.pairwise(places)))

    assert SECRET.encode() not in shown
    assert MARK in shown


def test_output_without_a_secret_comes_through_as_it_is() -> None:
    veil = Veil()
    assert covered(veil, b"hunt", b"er") == b"hunter"
    veil.add(SECRET, 0.0)

    assert veil.cover(b"a hunter", 0.0) == b"a "
    assert veil.cover(b" is no secret", 0.0) == b"hunter is no secret"


def test_a_short_one_is_only_taken_out_of_its_own_echo() -> None:
    veil = Veil()
    veil.add("42", 0.0)

    assert covered(veil, b"42 and 4", at=1.0) == MARK + b" and 4"
    assert covered(veil, b"page 42", at=5.0) == b"page 42"


def test_an_empty_answer_covers_nothing() -> None:
    veil = Veil()
    veil.add("", 0.0)

    assert covered(veil, b"text") == b"text"


def test_the_message_goes_on_record_without_what_it_said() -> None:
    response = {"hitl_response_for": {"prompt_id": "p", "payload": {"text": SECRET}}, "urn:other": SECRET}
    message = Message("m", "user", (Part("text", SECRET),), "c", "t", response)

    kept = without_secret(message, "p")

    assert SECRET not in str(kept)
    assert (kept.message_id, kept.task_id, kept.metadata) == (
        "m",
        "t",
        {"hitl_response_for": {"prompt_id": "p", "payload": {}}},
    )


def test_neither_is_shown_by_its_representation() -> None:
    veil = Veil()
    veil.add(SECRET, 0.0)

    assert SECRET not in f"{veil} {veil._secrets}"
