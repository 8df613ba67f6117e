"""Which fields does a form have that answers a question, and which answer is what was filled in?

For a page without a script: choices are radio buttons, texts and numbers are lines, and what is none of these is JSON. Nothing
is judged here: the payload goes the way of every other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from markupsafe import Markup, escape

from sandboxd.errors import InvalidParams, Problem
from sandboxd.values import frozen

FIELDS_MAX: Final = 8
CHOICES_MAX: Final = 12
_RADIO: Final = Markup('<p><label><input type="radio" name="choice.{}" value="{}"{}> {}</label></p>')
_LINE: Final = Markup('<p><label>{} <input type="{}" name="text.{}" value="{}" autocomplete="off"></label></p>')
WHOLE: Final = "payload"  # the field of an answer that is typed as JSON
Kind = Literal["string", "boolean", "integer", "number"]
_KINDS: Final = ("string", "boolean", "integer", "number")


@frozen
class Field:
    """One member of the answer.

    `choices`: what surely answers, as JSON, with what it is called; `is_open`: anything else may answer, too.
    """

    name: str
    title: str
    kind: Kind
    choices: tuple[tuple[str, str], ...] = ()
    is_open: bool = True
    is_secret: bool = False
    is_needed: bool = True


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields; none: the answer is to be typed as JSON."""
    members = schema.get("properties")
    if not isinstance(members, Mapping) or not 0 < len(members) <= FIELDS_MAX:
        return ()
    needed = schema.get("required")
    found = [_field(name, member, isinstance(needed, list) and name in needed) for name, member in members.items()]
    return tuple(field for field in found if field is not None) if all(found) else ()


def payload_of(fields: tuple[Field, ...], filled: Mapping[str, str]) -> dict[str, Any]:
    """The answer that was filled in; `InvalidParams` where it is no JSON or no number."""
    if not fields:
        return _whole(filled.get(WHOLE, ""))
    payload: dict[str, Any] = {}
    for field in fields:
        chosen, typed = filled.get(f"choice.{field.name}", ""), filled.get(f"text.{field.name}", "")
        if typed or not chosen:
            if typed or (field.kind == "string" and field.is_needed and field.is_open):
                payload[field.name] = _value(field, typed)
        else:
            payload[field.name] = _read(field.name, chosen)
    return payload


def form_html(fields: tuple[Field, ...], filled: Mapping[str, str]) -> Markup:
    """The form's fields, as they were filled in; a secret is never shown again."""
    if not fields:
        text = escape(filled.get(WHOLE, ""))
        label = Markup('<label for="payload">The answer, as JSON</label><br>')
        return label + Markup('<textarea id="payload" name="payload" rows="6" cols="60">{}</textarea>').format(text)
    return Markup("").join(_field_html(field, filled) for field in fields)


def _field_html(field: Field, filled: Mapping[str, str]) -> Markup:
    lines = [Markup("<fieldset><legend>{}</legend>").format(field.title)]
    for value, title in field.choices:
        checked = Markup(" checked") if filled.get(f"choice.{field.name}") == value else ""
        lines.append(_RADIO.format(field.name, value, checked, title))
    if field.is_open:
        kind = "password" if field.is_secret else "text"
        kept = "" if field.is_secret else filled.get(f"text.{field.name}", "")
        label = "Something else:" if field.choices else "Answer:"
        lines.append(_LINE.format(label, kind, field.name, kept))
    return Markup("").join([*lines, Markup("</fieldset>")])


def _field(name: str, member: Any, is_needed: bool) -> Field | None:
    if not isinstance(member, Mapping):
        return None
    kind = member.get("type", "string")
    if kind not in _KINDS:
        return None
    if kind == "boolean":
        choices: tuple[tuple[str, str], ...] = (("true", "yes"), ("false", "no"))
        return Field(name, _title(name, member), "boolean", choices, is_open=False, is_needed=is_needed)
    listed, is_closed = _choices(member)
    return Field(
        name,
        _title(name, member),
        kind,
        listed,
        is_open=not is_closed,
        is_secret=member.get("writeOnly") is True,
        is_needed=is_needed,
    )


def _choices(member: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], bool]:
    """What is offered, and whether nothing else is taken."""
    named = member.get("enum")
    if isinstance(named, list) and 0 < len(named) <= CHOICES_MAX:
        return tuple((json.dumps(one), str(one)) for one in named), True
    branches = member.get("oneOf") or member.get("anyOf")
    if not isinstance(branches, list):
        return (), False
    consts = [one for one in branches if isinstance(one, Mapping) and "const" in one][:CHOICES_MAX]
    return tuple((json.dumps(one["const"]), str(one.get("title", one["const"]))) for one in consts), len(consts) == len(
        branches
    )


def _title(name: str, member: Mapping[str, Any]) -> str:
    title = member.get("title")
    if isinstance(title, str) and title:
        return title[:200]
    return "Your answer" if name == "text" else name[:200]  # what is typed at a terminal has no name of its own there


def _value(field: Field, text: str) -> Any:
    return text if field.kind == "string" else _read(field.name, text)


def _read(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        problem = Problem(f"/{name}", "is no value of this kind")
        raise InvalidParams(f"cannot read the answer: {problem}", problems=[problem]) from None


def _whole(text: str) -> dict[str, Any]:
    value = _read("", text)
    if not isinstance(value, dict):
        raise InvalidParams("cannot read the answer: it must be a JSON object")
    return value
