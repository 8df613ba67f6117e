"""What may a person answer, and which keystrokes does that become?

The answer's form makes both the `response_schema` for the person and the keystrokes for the process, so the two cannot
disagree. adapter-command/v1: the payload is `{"text": …}`, at most 4,096 bytes, no control characters, one newline appended.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from sandboxd.errors import Problem
from sandboxd.values import frozen

TEXT_MAX_BYTES: Final = 4096  # adapter-command/v1
CANONICAL_MAX_BYTES: Final = 4095  # termios(3), canonical mode: a line is 4,096 bytes with its newline; the rest is dropped

FOREIGN_ID: Final = "urn:sandboxd:policy-schema:v1"

# `menu` names what no line of text can answer (arrow keys, a full screen): it is noticed, and never offered.
Kind = Literal["yes_no", "choice", "free_text", "press_enter", "secret", "repl", "shell", "menu"]

Enter = Literal["LF", "CR", "none"]
_ENTERS: Final[Mapping[Enter, bytes]] = {"LF": b"\n", "CR": b"\r", "none": b""}


@frozen
class Choice:
    """One text that answers the question, and how a button would name it."""

    text: str
    title: str


@frozen
class AnswerForm:
    """What kind of question it is, the texts that surely answer it, and the one that an empty line means.

    `single_key`: the program takes one key, and an Enter behind it would answer its next question.
    """

    kind: Kind = "free_text"
    choices: tuple[Choice, ...] = ()
    default: str | None = None
    single_key: bool = False


@frozen
class Keystrokes:
    """Exactly the bytes that are typed, the Enter at their end included; shown as their count alone. `enter`: which it is."""

    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    enter: Enter = "LF"


def response_schema(form: AnswerForm, foreign: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The closed draft 2020-12 schema of `{"text"}`: the choices beside a free string, so no legal text is refused.

    `foreign`: what an operator asks of the text besides. With an `$id`, so that its references stay within it.
    """
    text: dict[str, Any] = {"type": "string", "maxLength": 1 if form.single_key else TEXT_MAX_BYTES}
    if form.kind == "secret":
        text["writeOnly"] = True  # a form then hides what is typed, and nothing that was answered is shown again
    if form.choices:
        text["anyOf"] = [{"const": choice.text, "title": _title(choice, form)} for choice in form.choices]
        text["anyOf"].append({"type": "string"})
    if foreign is not None:
        text["allOf"] = [{"$id": FOREIGN_ID, **foreign}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {"text": text},
    }


def options(form: AnswerForm) -> tuple[str, ...]:
    """The short list of a2a-input-required's data part; empty when any text will do."""
    return tuple(choice.text for choice in form.choices)


def check(schema: Mapping[str, Any], payload: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Everything about the payload that does not fit, as JSON pointers with the failed keyword; empty: it fits.

    Only for schemas that `response_schema` made: a foreign schema needs a killable worker (hitl-prompt/v1, S-2).
    """
    problems = [found for error in Draft202012Validator(schema).iter_errors(payload) for found in explain(error)]
    text = payload.get("text")
    if isinstance(text, str):
        problems += _check_text(text)
    return tuple(dict.fromkeys(problems))


def explain(error: ValidationError) -> list[Problem]:
    """What one failed keyword says, in words that hold nothing of the value."""
    instance: Any = error.instance
    value: Any = error.validator_value
    schema: Any = error.schema
    pointer = "".join(f"/{_escape(str(step))}" for step in error.absolute_path)
    match error.validator:
        case "additionalProperties":
            extra = sorted(instance.keys() - schema.get("properties", {}).keys())
            return [
                Problem(f"{pointer}/{_escape(key)}", f"additional property '{key}' is not permitted", "additionalProperties")
                for key in extra
            ]
        case "required":
            missing = [key for key in value if key not in instance]
            return [
                Problem(f"{pointer}/{_escape(key)}", f"required property '{key}' is missing", "required") for key in missing
            ]
        case "type":
            return [Problem(pointer, f"expected {value}, got {_type_name(instance)}", "type")]
        case "maxLength":
            return [
                Problem(
                    pointer,
                    f"{len(instance)} characters, at most {value} are allowed",
                    "maxLength",
                )
            ]
        case "anyOf":  # only ever fails together with `type`, which says it better
            return []
        case keyword:
            return [Problem(pointer, f"does not fit `{keyword}`", str(keyword))]


def keystrokes(text: str, *, canonical: bool, single_key: bool = False) -> Keystrokes | Problem:
    """The bytes for a checked text: the text and one Enter, LF where the tty is canonical, CR where it is raw.

    With `single_key` the key alone; an empty text is the Enter key then. A text that the line discipline would cut is a
    problem, never cut.
    """
    encoded = text.encode()
    if canonical and len(encoded) > CANONICAL_MAX_BYTES:
        why = f"{len(encoded)} bytes, but the terminal's line mode delivers at most {CANONICAL_MAX_BYTES} and drops the rest"
        return Problem("/text", why, "maxLength")
    enter = enter_for(canonical=canonical)
    return Keystrokes(
        encoded if single_key and encoded else encoded + _ENTERS[enter], "none" if single_key and encoded else enter
    )


def enter_for(*, canonical: bool) -> Enter:
    """Which end of the line the terminal takes for the Enter key."""
    return "LF" if canonical else "CR"


def enter_keys(*, canonical: bool) -> bytes:
    """The Enter key's byte, where it is typed after its text."""
    return _ENTERS[enter_for(canonical=canonical)]


def _title(choice: Choice, form: AnswerForm) -> str:
    return f"{choice.title} (default)" if form.default is not None and choice.text == form.default else choice.title


def _check_text(text: str) -> list[Problem]:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return [Problem("/text", "contains a lone surrogate, which no terminal can take", "pattern")]
    problems = []
    if size > TEXT_MAX_BYTES and len(text) <= TEXT_MAX_BYTES:
        problems.append(Problem("/text", f"{size} bytes, at most {TEXT_MAX_BYTES} are allowed", "maxLength"))
    for char in text:
        if unicodedata.category(char) == "Cc":
            why = f"contains the control character U+{ord(char):04X}; one Enter is appended for you"
            problems.append(Problem("/text", why, "pattern"))
            break
    return problems


def _type_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
