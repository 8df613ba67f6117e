"""What may be kept of the reasons why an answer does not fit, where the answer itself may not be shown?

A reason names places and keywords, and a place may hold a key that the answer made up. So only the first step of a place is
kept, if the question's own schema has it, and of the words only the keyword.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandboxd.errors import Problem

ELSEWHERE: Final = "/…"


def redacted(problems: tuple[Problem, ...], schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    """The problems without anything that could be a piece of the answer."""
    found = (Problem(place_of(one.field, schema), f"does not fit ({one.keyword or 'it'})", one.keyword) for one in problems)
    return tuple(dict.fromkeys(found))


def place_of(pointer: str, schema: Mapping[str, Any]) -> str:
    """The member of the answer that the JSON pointer leads into, where the schema knows it; `""` is the whole."""
    first = pointer.removeprefix("/").partition("/")[0]
    members = schema.get("properties")
    if not pointer or not first:
        return ""
    return f"/{first}" if isinstance(members, Mapping) and first in members else ELSEWHERE
