"""What may be answered, and which bytes does that become?"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sandboxd.errors import Problem
from sandboxd.hitl.answer import (
    CANONICAL_MAX_BYTES,
    TEXT_MAX_BYTES,
    AnswerForm,
    Choice,
    Keystrokes,
    check,
    keystrokes,
    options,
    response_schema,
)

YES_NO = AnswerForm("yes_no", (Choice("y", "Yes"), Choice("n", "No")), "n")
FREE = AnswerForm()


def found(form: AnswerForm, payload: dict[str, object]) -> list[tuple[str, str]]:
    return [(problem.field, problem.keyword) for problem in check(response_schema(form), payload)]


def test_the_schema_is_the_one_of_the_samples() -> None:
    assert response_schema(YES_NO) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {
            "text": {
                "type": "string",
                "maxLength": 4096,
                "anyOf": [
                    {"const": "y", "title": "Yes"},
                    {"const": "n", "title": "No (default)"},
                    {"type": "string"},
                ],
            }
        },
    }
    assert options(YES_NO) == ("y", "n")
    assert options(FREE) == ()


@pytest.mark.parametrize("form", [YES_NO, FREE])
def test_the_schema_is_a_closed_draft_2020_12_object(form: AnswerForm) -> None:
    schema = response_schema(form)

    Draft202012Validator.check_schema(schema)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)


def test_the_problems_of_the_samples_are_found_with_path_keyword_and_message() -> None:
    problems = check(response_schema(YES_NO), {"text": 1, "extra": True})

    assert sorted(problems, key=lambda problem: problem.field, reverse=True) == [
        Problem("/text", "expected string, got integer", "type"),
        Problem("/extra", "additional property 'extra' is not permitted", "additionalProperties"),
    ]


@pytest.mark.parametrize("form", [YES_NO, FREE])
@pytest.mark.parametrize(
    ("payload", "problems"),
    [
        ({}, [("/text", "required")]),
        ({"text": None}, [("/text", "type")]),
        ({"text": True}, [("/text", "type")]),
        ({"text": ["y"]}, [("/text", "type")]),
        ({"text": {"text": "y"}}, [("/text", "type")]),
        ({"text": "y", "a/b~c": 1}, [("/a~1b~0c", "additionalProperties")]),
        ({"text": "y\n"}, [("/text", "pattern")]),
        ({"text": "\x1b[A"}, [("/text", "pattern")]),
        ({"text": "y\x00"}, [("/text", "pattern")]),
        ({"text": "\x03"}, [("/text", "pattern")]),
        ({"text": "\x7f"}, [("/text", "pattern")]),
        ({"text": "a\x9bb"}, [("/text", "pattern")]),
        ({"text": "a\tb"}, [("/text", "pattern")]),
        ({"text": "\ud800"}, [("/text", "pattern")]),
        ({"text": "x" * 4097}, [("/text", "maxLength")]),
        ({"text": "ü" * 2049}, [("/text", "maxLength")]),
        ({"text": "ü" * 4097}, [("/text", "maxLength")]),
    ],
)
def test_what_does_not_fit_is_named(form: AnswerForm, payload: dict[str, object], problems: list[tuple[str, str]]) -> None:
    assert found(form, payload) == problems


@pytest.mark.parametrize("text", ["", "y", "n", "maybe", " y ", "はい", "👍🏽", "-rf /", "$(reboot)", "x" * 4096, "ü" * 2048])
@pytest.mark.parametrize("form", [YES_NO, FREE])
def test_every_other_text_is_taken(form: AnswerForm, text: str) -> None:
    assert found(form, {"text": text}) == []


@given(st.text(max_size=50))
def test_a_text_is_refused_exactly_when_it_holds_a_control_character_or_a_surrogate(text: str) -> None:
    is_bad = any(unicodedata.category(char) in ("Cc", "Cs") for char in text)

    assert bool(found(YES_NO, {"text": text})) is is_bad


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=50), st.booleans())
def test_the_keystrokes_are_the_text_and_one_enter(text: str, canonical: bool) -> None:
    typed = keystrokes(text, canonical=canonical)

    assert typed == (Keystrokes(text.encode() + b"\n", "LF") if canonical else Keystrokes(text.encode() + b"\r", "CR"))
    assert typed.data.count(b"\n") + typed.data.count(b"\r") == 1


def test_what_the_line_mode_would_cut_is_refused_and_never_cut() -> None:
    assert isinstance(keystrokes("x" * CANONICAL_MAX_BYTES, canonical=True), Keystrokes)
    assert isinstance(keystrokes("x" * TEXT_MAX_BYTES, canonical=False), Keystrokes)

    problem = keystrokes("x" * TEXT_MAX_BYTES, canonical=True)
    assert isinstance(problem, Problem)
    assert (problem.field, problem.keyword) == ("/text", "maxLength")


def test_what_was_typed_is_never_shown() -> None:
    typed = keystrokes("hunter2", canonical=True)

    assert repr(typed) == "Keystrokes(data=<8 bytes>, enter='LF')"


def test_no_problem_repeats_the_answer() -> None:
    for text in ("hunter2\n", "hunter2" * 1000, "hunter2\ud800"):
        assert all("hunter2" not in str(problem) for problem in check(response_schema(FREE), {"text": text}))


@pytest.mark.parametrize(("text", "typed"), [("y", Keystrokes(b"y", "none")), ("", Keystrokes(b"\r", "CR"))])
def test_a_program_that_takes_one_key_gets_that_key_and_no_enter(text, typed) -> None:
    assert keystrokes(text, canonical=False, single_key=True) == typed


def test_a_program_that_takes_one_key_is_answered_with_one() -> None:
    assert found(AnswerForm("yes_no", single_key=True), {"text": "yes"}) == [("/text", "maxLength")]


def test_a_secret_is_marked_as_something_that_is_never_shown() -> None:
    assert response_schema(AnswerForm("secret"))["properties"]["text"]["writeOnly"] is True
