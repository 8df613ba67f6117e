"""Is nothing of an answer in the reasons why it does not fit?"""

from __future__ import annotations

import pytest

from sandboxd.cockpit.redact import place_of, redacted
from sandboxd.errors import Problem

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


@pytest.mark.parametrize(
    ("pointer", "place"),
    [("", ""), ("/text", "/text"), ("/text/hunter2", "/text"), ("/hunter2", "/…"), ("/hunter2/text", "/…"), ("/", "")],
)
def test_a_place_is_kept_as_far_as_the_question_knows_it(pointer, place):
    assert place_of(pointer, SCHEMA) == place


def test_of_the_words_the_keyword_is_kept():
    problem = Problem("/hunter2", "additional property 'hunter2' is not permitted", "additionalProperties")

    assert redacted((problem, problem), SCHEMA) == (
        Problem("/…", "does not fit (additionalProperties)", "additionalProperties"),
    )


def test_a_schema_without_members_knows_no_place():
    assert place_of("/text", {"type": "object"}) == "/…"
