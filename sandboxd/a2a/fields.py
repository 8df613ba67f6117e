"""What stands in this JSON object, and what is wrong with it?

A `Fields` reads one object as tolerantly as ProtoJSON readers do (camelCase and snake_case names, numeric enums, integers as
strings or integral floats, null as absent, unknown names ignored) and writes every problem into one shared list, so that a
caller learns of all of them at once. Readers return a harmless value beside a problem; `refuse` ends the reading.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar

from sandboxd.a2a.wire import parse_rfc3339
from sandboxd.errors import InvalidParams, Problem

LIST_MAX: Final = 1000  # every element may be a problem of its own, and each of them is told
INT32_MAX: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,256}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")
T = TypeVar("T")


class Fields:
    """One JSON object at `path` of the request; `problems` is shared by all readers of that request."""

    def __init__(self, value: Any, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._value: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        self._is_object = isinstance(value, Mapping)
        if not self._is_object:
            problems.append(Problem(path, f"must be an object, not {type_name(value)}"))

    def at(self, name: str) -> str:
        """The dotted path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def problem(self, name: str, reason: str) -> None:
        """Put a problem with that field on record; where there is no object at all, that has been said already."""
        if self._is_object:
            self.problems.append(Problem(self.at(name), reason))

    def own_problem(self, reason: str) -> None:
        """Put a problem with the object itself on record."""
        if self._is_object:
            self.problems.append(Problem(self.path, reason))

    def has(self, name: str) -> bool:
        """Whether the field is spelled out, were it with null."""
        return name in self._value or _snake(name) in self._value

    def take(self, name: str) -> Any:
        """The field's value under its camelCase or snake_case name; None: absent or null."""
        snake = _snake(name)
        if snake != name and name in self._value and snake in self._value:
            self.problem(name, f"stands there twice, also as `{snake}`")
        value = self._value.get(name)
        return self._value.get(snake) if value is None else value

    def text(self, name: str) -> str | None:
        """A string that is not empty; an empty one is as good as absent (proto3)."""
        value = self.take(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            return value
        self.problem(name, f"must be a string, not {type_name(value)}")
        return None

    def identifier(self, name: str, *, max_chars: int = 256) -> str | None:
        """An id that somebody else made: any string that is not absurdly long."""
        value = self.text(name)
        if value is not None and len(value) > max_chars:
            self.problem(name, f"has {len(value)} characters, at most {max_chars} are allowed")
            return None
        return value

    def token(self, name: str) -> str | None:
        """An id of the client's own that ends up in environments, logs and terminals: printable ASCII without blanks."""
        value = self.text(name)
        if value is None or _TOKEN.fullmatch(value):
            return value
        self.problem(name, "must be 1 to 256 printable ASCII characters without blanks")
        return None

    def base64(self, name: str) -> bytes | None:
        """Bytes in standard or url-safe base64, padded or not."""
        value = self.take(name)
        if isinstance(value, str) and _BASE64.fullmatch(value):
            letters = value.rstrip("=").translate(_URL_SAFE)
            try:
                return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
            except binascii.Error:
                pass
        if value is not None:
            self.problem(name, "must be base64")
        return None

    def time(self, name: str) -> datetime | None:
        """An RFC 3339 time."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return parse_rfc3339(value)
        except ValueError:
            self.problem(name, "must be an RFC 3339 time such as `2026-11-29T12:00:00.000Z`")
            return None

    def required(self, name: str, value: T | None) -> T | None:
        """`value`, and a problem when there is none and nothing else is known to be wrong with the field."""
        if value is None and all(problem.field != self.at(name) for problem in self.problems):
            self.problem(name, "is required")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._list(name)
        for index, item in enumerate(value):
            if not isinstance(item, str):
                self.problem(f"{name}[{index}]", f"must be a string, not {type_name(item)}")
        return tuple(item for item in value if isinstance(item, str))

    def flag(self, name: str) -> bool | None:
        """A boolean."""
        value = self.take(name)
        if value is None or isinstance(value, bool):
            return value
        self.problem(name, f"must be true or false, not {type_name(value)}")
        return None

    def integer(self, name: str, low: int, high: int = INT32_MAX) -> int | None:
        """An integer within bounds; `3`, `3.0` and `"3"` are all three."""
        value = self.take(name)
        if value is None:
            return None
        number = as_integer(value)
        if number is None and isinstance(value, str) and _INTEGER.fullmatch(value):
            number = int(value)
        if number is None:
            self.problem(name, f"must be an integer, not {type_name(value)}")
        elif not low <= number <= high:
            self.problem(name, f"must be at least {low}" if high == INT32_MAX and number < low else f"must be {low} to {high}")
        else:
            return number
        return None

    def enum(self, name: str, names: Mapping[str, T], numbers: Mapping[int, T]) -> T | None:
        """A value of an enumeration by its name or its proto number."""
        value = self.take(name)
        if value is None:
            return None
        number = as_integer(value)
        if isinstance(value, str) and value in names:
            return names[value]
        if number is not None and number in numbers:
            return numbers[number]
        self.problem(name, "must be one of " + ", ".join(f"`{known}`" for known in names))
        return None

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """A free object, passed on untouched; None when it is absent or empty."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, Mapping):
            return value or None
        self.problem(name, f"must be an object, not {type_name(value)}")
        return None

    def child(self, name: str) -> Fields | None:
        """The object under that name; None when it is absent."""
        value = self.take(name)
        return None if value is None else Fields(value, self.at(name), self.problems)

    def children(self, name: str) -> list[Fields]:
        """The objects of a list that needs at least one."""
        value = self._list(name)
        if self.take(name) in (None, []):
            self.problem(name, "needs at least one element")
        return [Fields(item, f"{self.at(name)}[{index}]", self.problems) for index, item in enumerate(value)]

    def _list(self, name: str) -> list[Any]:
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(name, f"must be a list, not {type_name(value)}")
        elif len(value) > LIST_MAX:
            self.problem(name, f"has {len(value)} elements, at most {LIST_MAX} are allowed")
        else:
            return value
        return []


def refuse(what: str, problems: list[Problem]) -> None:
    """Raise `InvalidParams` with every problem, if there is one."""
    if problems:
        raise InvalidParams(
            f"cannot {what}: {len(problems)} field{'s are' if len(problems) > 1 else ' is'} wrong", problems=problems
        )


def as_integer(value: Any) -> int | None:
    """The integer that a JSON number means; SDK clients send integers as floats (protobuf's Struct)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def type_name(value: Any) -> str:
    """How JSON calls the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


@cache  # of names of ours: some forty
def _snake(name: str) -> str:
    return _HUMP.sub(lambda hump: "_" + hump[0].lower(), name)
