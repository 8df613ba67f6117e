"""Which bodies are JSON to us, and what do we write?"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxd.a2a.jsontext import MAX_DEPTH, canonical_json, dump_json, parse_json
from sandboxd.errors import InvalidJson

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines differ
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "expecting value at line 1 column 1"),
        (b"{", "line 1 column 2"),
        (b'{"a":1}{', "extra data at line 1 column 8"),
        (b"'a'", "expecting value"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b"\xef\xbb\xbf{}", "expecting value"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b'{"a":NaN}', "`NaN` is no JSON value"),
        (b"[-Infinity]", "`-Infinity` is no JSON value"),
        (b"[1e999]", "`1e999` is out of range"),
        (b"1" * 5000, "4300 digits"),
        (b'{"mode":"plan","mode":"assess"}', "the name `mode` stands twice"),
        (b'{"a":{"b":1,"b":1}}', "the name `b` stands twice"),
        (b'["\\ud83d"]', "surrogate"),
        (b'{"\\udE00": 1}', "surrogate"),
        (b'"a\nb"', "control character"),
        (b"[" * 100_000, "nested deeper"),
        (b"[" * 101 + b"]" * 101, "nested deeper"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested deeper"),
    ],
)
def test_what_is_no_json_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(InvalidJson, match=r"^cannot read the body: ") as caught:
        parse_json(body)

    assert why in caught.value.message
    assert len(caught.value.message) < 200


def test_integers_stay_integers_and_floats_stay_floats() -> None:
    assert repr(parse_json(b'[3, 3.0, 1e2, -0, 123456789012345678901234567890, "\\ud83d\\ude00"]')) == repr(
        [3, 3.0, 100.0, 0, 123456789012345678901234567890, "\N{GRINNING FACE}"]
    )


def test_the_allowed_depth_is_read() -> None:
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def test_an_escaped_backslash_before_u_is_no_surrogate() -> None:
    assert parse_json(b'"\\\\ud800"') == "\\ud800"


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_what_is_written_is_one_line_to_every_reader(end: str) -> None:
    written = dump_json({"a": f"x{end}y"})

    assert len(written.decode().splitlines()) == 1
    assert json.loads(written) == {"a": f"x{end}y"}


def test_equal_values_have_equal_canonical_bytes() -> None:
    assert canonical_json({"b": 1, "a": {"d": "é", "c": []}}) == canonical_json({"a": {"c": [], "d": "é"}, "b": 1})


@unhurried
@given(JSON)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert repr(parse_json(dump_json(value))) == repr(value)


@unhurried
@given(st.binary() | st.text(alphabet='[]{}",:\\ud8e9Nn1.-').map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        value = parse_json(body)
    except InvalidJson:
        return

    assert not (isinstance(value, float) and not math.isfinite(value))
    assert parse_json(dump_json(value)) == value
