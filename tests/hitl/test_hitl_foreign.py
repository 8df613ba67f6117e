"""Is a foreign schema refused before anything of it is evaluated?"""

from __future__ import annotations

from typing import Any

import pytest

from sandboxd.hitl.foreign import LEVELS_MAX, SCHEMA_MAX_BYTES, refuse_schema, refuse_value


def nested(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string", "pattern": "^(a+)+$"},
        {"$id": "urn:x", "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"const": ["http://elsewhere"], "enum": [{"$ref": "http://elsewhere"}]},
        nested(LEVELS_MAX),
    ],
)
def test_a_schema_within_the_bounds_may_be_evaluated(schema: Any) -> None:
    assert refuse_schema(schema) == ()


@pytest.mark.parametrize(
    ("schema", "field", "why"),
    [
        (True, "", "must be an object"),
        ([], "", "must be an object"),
        ({"$comment": "x" * SCHEMA_MAX_BYTES}, "", f"at most {SCHEMA_MAX_BYTES}"),
        (nested(LEVELS_MAX + 1), "", "more than 32 levels"),
        (nested(100_000), "", "more than 32 levels"),
        ({"const": float("nan")}, "", "is no JSON"),
        ({"$ref": "https://elsewhere/schema"}, "/$ref", "within the schema"),
        ({"properties": {"a/b": {"$dynamicRef": "other.json#a"}}}, "/properties/a~1b/$dynamicRef", "within the schema"),
        ({"allOf": [{"$ref": "file:///etc/passwd"}]}, "/allOf/0/$ref", "within the schema"),
        ({"$defs": {"a": {"$id": "urn:x"}}}, "/$defs/a/$id", "as a whole"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema", "2020-12"),
        ({"$schema": 7}, "/$schema", "2020-12"),
    ],
)
def test_a_schema_outside_the_bounds_is_refused_with_its_reason(schema: Any, field: str, why: str) -> None:
    (problem,) = refuse_schema(schema)

    assert problem.field == field
    assert why in problem.reason


def test_a_value_has_bounds_too() -> None:
    assert refuse_value({"text": "y"}) == ()
    assert "levels" in refuse_value(nested(LEVELS_MAX + 1))[0].reason
    assert "bytes" in refuse_value("x" * 65_537)[0].reason
