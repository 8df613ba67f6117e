"""In which words is a question passed on, and what does an answer to those words mean to who asked first?

By rules that an operator writes: `question` fits the whole of the asker's text, `ask` is what the caller reads, and nothing of
the asker's words gets through but the groups that `ask` names. A question that no rule is for is not passed on: it stays with
the people of this cockpit. What asks for a secret never leaves.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sandboxd.errors import AnswerInvalid, Problem
from sandboxd.hitl.envelope import PROMPT_MAX_CHARS, plain_text
from sandboxd.hitl.received import asks_secret
from sandboxd.policy.table import Table
from sandboxd.values import frozen

CHOICES_MAX: Final = 32
TEXT_MAX_CHARS: Final = 4000
_MEMBER: Final = "answer"  # of what the caller answers; the asker's member is its own affair


@frozen
class Wording:
    """One rule. `choices`: what the caller may say, and the text that it means; empty: any text, which is passed on."""

    question: re.Pattern[str]
    ask: str
    choices: Mapping[str, str] = attrs.field(factory=dict)
    hosts: frozenset[str] = frozenset()


@frozen
class Restated:
    """A question in our own words, with what each choice means; stored as it was asked, whatever the rules say later."""

    text: str
    choices: Mapping[str, str]

    @property
    def schema(self) -> dict[str, Any]:
        """What may be answered; ours, whatever the asker's looks like."""
        answer: dict[str, Any] = {"type": "string", "maxLength": TEXT_MAX_CHARS}
        if self.choices:
            answer = {"type": "string", "enum": list(self.choices)}
        return {"type": "object", "required": [_MEMBER], "properties": {_MEMBER: answer}, "additionalProperties": False}

    def translate(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """What that answer is to the asker; `AnswerInvalid` where it does not fit our own schema."""
        said, problems = payload.get(_MEMBER), list[Problem]()
        for key in payload:
            if key != _MEMBER:
                problems.append(Problem(f"/{str(key)[:64]}", "is not permitted", "additionalProperties"))
        if _MEMBER not in payload:
            problems.append(Problem("", f"`{_MEMBER}` is missing", "required"))
        elif not isinstance(said, str):
            problems.append(Problem(f"/{_MEMBER}", "must be a text", "type"))
        elif self.choices and said not in self.choices:
            problems.append(Problem(f"/{_MEMBER}", f"must be one of {', '.join(self.choices)}", "enum"))
        elif len(said) > TEXT_MAX_CHARS:
            problems.append(Problem(f"/{_MEMBER}", f"must have at most {TEXT_MAX_CHARS} characters", "maxLength"))
        if problems:
            raise AnswerInvalid("cannot take the answer: it does not fit", problems=problems)
        assert isinstance(said, str)  # else there were problems
        return {"text": self.choices[said] if self.choices else said}


def restate(wordings: Sequence[Wording], host: str, envelope: Mapping[str, Any]) -> Restated | None:
    """The question in our own words; None: it is not passed on."""
    asked, schema = envelope["prompt"], envelope["response_schema"]
    if len(asked) > PROMPT_MAX_CHARS or asks_secret(schema) or not _takes_text(schema):
        return None
    for wording in wordings:
        found = wording.question.fullmatch(asked)
        if found is not None and (not wording.hosts or host in wording.hosts):
            named = {name: plain_text(value or "")[:200] for name, value in found.groupdict().items()}
            return Restated(plain_text(wording.ask.format(**named)), wording.choices)
    return None


def read_wordings(tables: Sequence[Table]) -> tuple[Wording, ...]:
    """The `[[restate]]` tables."""
    return tuple(_read(table) for table in tables)


def _read(table: Table) -> Wording:
    pattern, ask, choices = re.compile(""), table.text("ask"), table.mapping("choices")
    try:
        pattern = re.compile(table.text("question"))
    except re.error as error:
        table.problem("question", f"is no regular expression: {error}")
    try:
        named = {name for _, name, form, conversion in string.Formatter().parse(ask) if name is not None}
        if any(form or conversion for _, _, form, conversion in string.Formatter().parse(ask)):
            table.problem("ask", "may name groups as `{name}`, and nothing more")
        if unknown := sorted(named - set(pattern.groupindex)):
            table.problem("ask", f"names no group of `question`: {', '.join(unknown)}")
    except ValueError as error:
        table.problem("ask", f"is no text with `{{name}}` in it: {error}")
    if len(choices) > CHOICES_MAX:
        table.problem("choices", f"has {len(choices)} choices, at most {CHOICES_MAX} are taken")
    wording = Wording(pattern, ask, choices, frozenset(table.texts("hosts")))
    table.close()
    return wording


def _takes_text(schema: Mapping[str, Any]) -> bool:
    """Whether an answer can be one text, as a program at a terminal asks for it."""
    members, needed = schema.get("properties"), schema.get("required")
    if not isinstance(members, Mapping) or not isinstance(members.get("text"), Mapping):
        return False
    return not isinstance(needed, list) or set(needed) <= {"text"}
