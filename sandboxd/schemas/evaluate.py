"""What does a foreign schema say about a value? (to be asked in the worker alone, but for `misuse`)

Messages name keywords, types and names, never a part of the value: it may be an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from sandboxd.errors import Problem
from sandboxd.hitl.answer import explain

PROBLEMS_MAX: Final = 32
_TEXT_MAX_CHARS: Final = 300


class Unusable(Exception):
    """The schema is none of draft 2020-12, or refers to something that is not there."""


def misuse(schema: Mapping[str, Any]) -> str:
    """What is wrong with the schema by draft 2020-12's own rules; empty: nothing. For an operator's own file."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"at `/{'/'.join(map(str, error.absolute_path))}`: {error.message}"[:_TEXT_MAX_CHARS]
    return ""


def evaluate(schema: Mapping[str, Any], value: Any) -> tuple[Problem, ...]:
    """Up to `PROBLEMS_MAX` things that do not fit; `Unusable`. May take for ever."""
    try:
        if why := misuse(schema):
            raise Unusable(why)
        found = list(islice(Draft202012Validator(schema).iter_errors(value), PROBLEMS_MAX))
    except RecursionError:
        raise Unusable("it refers to itself without end, or is too deep") from None
    except Unusable:
        raise
    except Exception as error:  # a reference that leads nowhere, a pattern that is none: whatever the library makes of it
        raise Unusable(f"it cannot be evaluated ({type(error).__name__})") from None
    problems = [problem for one in found for problem in explain(one)] or [
        Problem("", f"does not fit `{one.validator}`", str(one.validator)) for one in found
    ]
    return tuple(_clipped(problem) for problem in dict.fromkeys(problems))[:PROBLEMS_MAX]


def _clipped(problem: Problem) -> Problem:
    return Problem(problem.field[:_TEXT_MAX_CHARS], problem.reason[:_TEXT_MAX_CHARS], problem.keyword[:64])
