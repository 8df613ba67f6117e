"""Which answer fits a prompt's schema, and which surely does not?

The schema is the target's, so nothing is taken for granted: every candidate is checked against it, and where none is found the
scenario is skipped. No reference in it is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

SCHEMA_MAX_BYTES: Final = 64 * 1024  # hitl-prompt/v1, S-2
SCHEMA_MAX_DEPTH: Final = 32  # hitl-prompt/v1, S-2
_EXTRA: Final = "not-in-the-schema"


class BadSchema(Exception):
    """It is no JSON Schema that can be used; the text says why."""


class Answers:
    """Answers for one `response_schema`."""

    def __init__(self, schema: Any) -> None:
        if not isinstance(schema, Mapping):
            raise BadSchema("it is no object")
        size = len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode())
        if size > SCHEMA_MAX_BYTES:
            raise BadSchema(f"it has {size} bytes")
        if _depth(schema) > SCHEMA_MAX_DEPTH:
            raise BadSchema(f"it is nested deeper than {SCHEMA_MAX_DEPTH} levels")
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise BadSchema(f"it is no draft 2020-12 schema: {error.message[:200]}") from error
        self._schema = schema
        self._validator = Draft202012Validator(schema, registry=Registry())  # an empty registry: nothing is fetched

    def fits(self, payload: Any) -> bool:
        """Whether the schema takes it."""
        try:
            return bool(self._validator.is_valid(payload))
        except Unresolvable as error:
            raise BadSchema(f"it refers to what is not in it: {error}") from error

    def valid(self) -> dict[str, Any] | None:
        """An answer that fits; the first choice where there are choices, which in a yes-or-no question is the yes."""
        required = self._schema.get("required", [])
        properties = self._schema.get("properties", {})
        names = [*required, *(name for name in properties if name not in required)]
        made: dict[str, Any] = {}
        for name in names:
            if self.fits(made) and name not in required and made:
                break
            for value in _values(properties.get(name, {})):
                if Draft202012Validator(properties.get(name, {}), registry=Registry()).is_valid(value):
                    made[name] = value
                    break
        return made if self.fits(made) else None

    def invalid(self) -> list[tuple[str, dict[str, Any]]]:
        """Answers that do not fit, each with what is wrong with it."""
        good = self.valid() or {}
        candidates: list[tuple[str, dict[str, Any]]] = []
        for name in good:
            candidates.append((f"`{name}` has the wrong type", {**good, name: _of_other_type(good[name])}))
            candidates.append((f"`{name}` is missing", {key: value for key, value in good.items() if key != name}))
        candidates.append(("an additional property", {**good, _EXTRA: 1}))
        return [(what, payload) for what, payload in candidates if not self.fits(payload)]


def _values(schema: Any) -> Iterator[Any]:
    if not isinstance(schema, Mapping):
        yield from ("y", True, 1)
        return
    if "const" in schema:
        yield schema["const"]
    yield from schema.get("enum", [])
    for word in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(word, []):
            yield from _values(branch)
    yield from schema.get("examples", [])
    yield from ("y", "yes", "y" * int(schema.get("minLength", 1)), True, schema.get("minimum", 1), 1.5, None, [], {})


def _of_other_type(value: Any) -> Any:
    return 7 if isinstance(value, str) else "7"


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= SCHEMA_MAX_DEPTH:
        depth += 1
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ())
            if isinstance(child, Mapping | list)
        ]
    return depth
