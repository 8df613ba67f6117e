"""Which envelopes are asked, and which are malformed?"""

from __future__ import annotations

from typing import Any

import pytest

from sandboxd.hitl.envelope import PromptEnvelope
from sandboxd.hitl.received import asks_secret, envelope_in, parse_envelope

GOOD: dict[str, Any] = {
    "prompt_id": "0b5c0f3e-8d4f-4a4b-9f0f-5d3a1c2b7e90",
    "prompt": "Proceed?",
    "response_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def deep(levels):
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"deadline": "2026-05-09T12:00:00Z"},
        {"deadline": "2026-05-09T12:00:00.5+02:00"},
        {"allowed_responders": ["any"]},
        {"allowed_responders": ["specific:alice", "consensus:2"]},
        {"allowed_responders": ["somebody-new"]},
        {"prompt_id": "0190A3D4-8D4F-7A4B-9F0F-5D3A1C2B7E90"},
        {"prompt": "x" * 5000},
    ],
)
def test_what_the_spec_allows_is_asked(more):
    assert isinstance(parse_envelope(GOOD | more), PromptEnvelope)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"extra": 1}, "extra"),
        ({"prompt_id": "42"}, "prompt_id"),
        ({"prompt_id": "{0b5c0f3e-8d4f-4a4b-9f0f-5d3a1c2b7e90}"}, "prompt_id"),
        ({"prompt_id": None}, "prompt_id"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "  \n"}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": "x" * 70_000}, "prompt"),
        ({"response_schema": {"properties": {}}}, "response_schema"),
        ({"response_schema": {"type": ["object"]}}, "response_schema"),
        ({"response_schema": "{}"}, "response_schema"),
        ({"response_schema": True}, "response_schema"),
        ({"response_schema": {"type": "object", "description": "x" * 65_536}}, "response_schema"),
        ({"response_schema": deep(20)}, "response_schema"),
        ({"response_schema": {"type": "object", "$ref": "https://example.com/s"}}, "response_schema/$ref"),
        ({"deadline": "tomorrow"}, "deadline"),
        ({"deadline": "2026-05-09T12:00:00"}, "deadline"),
        ({"deadline": None}, "deadline"),
        ({"deadline": 7}, "deadline"),
        ({"allowed_responders": []}, "allowed_responders"),
        ({"allowed_responders": "any"}, "allowed_responders"),
        ({"allowed_responders": [1]}, "allowed_responders"),
        ({"allowed_responders": None}, "allowed_responders"),
        ({"allowed_responders": ["any"] * 300}, "allowed_responders"),
        ({"prompt": "\ud800 lone"}, ""),
        ({"response_schema": {"type": "object", "maxProperties": 10**400}}, ""),
    ],
)
def test_what_the_spec_does_not_allow_is_malformed_and_says_where(changed, field):
    problems = parse_envelope(GOOD | changed)

    assert isinstance(problems, tuple)
    assert field in [problem.field for problem in problems]


@pytest.mark.parametrize("value", [None, [], "text", 3, True])
def test_what_is_no_object_is_malformed(value):
    assert isinstance(parse_envelope(value), tuple)


@pytest.mark.parametrize("missing", ["prompt_id", "prompt", "response_schema"])
def test_every_required_field_is_required(missing):
    assert isinstance(parse_envelope({name: value for name, value in GOOD.items() if name != missing}), tuple)


def test_everything_that_is_wrong_is_named():
    assert len(parse_envelope({"extra": 1})) >= 4  # type: ignore[arg-type]  # it is malformed, so it is a tuple


@pytest.mark.parametrize("message", [None, {}, {"metadata": None}, {"metadata": []}, {"metadata": {"other": 1}}, "text"])
def test_a_message_without_an_envelope_has_none(message):
    assert envelope_in(message) is None


def test_a_secret_is_seen_at_any_depth():
    assert asks_secret({"type": "object", "properties": {"a": {"items": [{"writeOnly": True}]}}})
    assert not asks_secret({"type": "object", "properties": {"a": {"writeOnly": "true"}}})
