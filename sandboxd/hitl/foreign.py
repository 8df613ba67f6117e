"""May a schema that somebody else wrote be used at all?

The bounds of hitl-prompt/v1, S-2, counted before anything is evaluated: 64 KiB, 32 levels, nothing that is fetched. A schema
within them can still take for ever (`^(a+)+$`, a tree of `$ref`s), which is why `sandboxd.schemas` evaluates it elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandboxd.a2a.jsontext import dump_json
from sandboxd.errors import Problem

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_MAX_BYTES: Final = 64 * 1024
VALUE_MAX_BYTES: Final = 64 * 1024
LEVELS_MAX: Final = 32
_REFERENCES: Final = ("$ref", "$dynamicRef")
_VALUES: Final = ("const", "enum", "default", "examples")  # their JSON is no schema


def refuse_schema(schema: Any) -> tuple[Problem, ...]:
    """Everything that keeps this schema from being used, by JSON pointer; empty: it may be evaluated, at a distance."""
    if not isinstance(schema, Mapping):
        return (Problem("", "must be an object"),)
    if problems := _bounds(schema, "the schema", SCHEMA_MAX_BYTES):
        return problems
    problems = ()
    if schema.get("$schema", DIALECT).rstrip("#") != DIALECT if isinstance(schema.get("$schema", ""), str) else True:
        problems += (Problem("/$schema", f"must be {DIALECT}, or left out"),)
    return problems + tuple(_fetched(schema))


def refuse_value(value: Any) -> tuple[Problem, ...]:
    """What keeps this value from being checked against any foreign schema."""
    return _bounds(value, "the value", VALUE_MAX_BYTES)


def _bounds(value: Any, name: str, max_bytes: int) -> tuple[Problem, ...]:
    if _has_more_levels(value):  # first: the text of a deep value is made by recursion
        return (Problem("", f"{name} has more than {LEVELS_MAX} levels"),)
    try:
        size = len(dump_json(value))
    except (TypeError, ValueError) as error:
        return (Problem("", f"{name} is no JSON: {error}"),)
    return (Problem("", f"{name} has {size} bytes, at most {max_bytes} are allowed"),) if size > max_bytes else ()


def _has_more_levels(value: Any) -> bool:
    level = [value]
    for _ in range(LEVELS_MAX):
        level = [
            child
            for node in level
            if isinstance(node, Mapping | list | tuple)
            for child in (node.values() if isinstance(node, Mapping) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, Mapping | list | tuple) for node in level)


def _fetched(schema: Any, pointer: str = "") -> list[Problem]:
    """References that lead out of the schema. A property may be called `$ref`; only texts refer."""
    if isinstance(schema, list | tuple):
        return [problem for index, item in enumerate(schema) for problem in _fetched(item, f"{pointer}/{index}")]
    if not isinstance(schema, Mapping):
        return []
    problems = []
    for name, value in schema.items():
        at = f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
        if name in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            problems.append(Problem(at, "must be a reference within the schema, such as `#/$defs/name`"))
        elif name == "$id" and isinstance(value, str) and pointer:
            problems.append(Problem(at, "only the schema as a whole may have an `$id`"))
        elif not (name in _VALUES and not isinstance(value, Mapping)):
            problems += _fetched(value, at)
    return problems
