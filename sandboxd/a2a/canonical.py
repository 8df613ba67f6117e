"""Which bytes stand for a JSON value in every language? (RFC 8785)

Names sorted by UTF-16 code units, numbers as ECMAScript spells a double, strings with the least escapes. So `3`, `3.0` and
`30e-1` are one number here, as they are for a client's JavaScript. Takes what `parse_json` lets through.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

_EXACT_MAX = 2**53  # beyond it an integer is the nearest double, as JSON.parse would have it


def canonical(value: Any) -> bytes:
    """The one spelling of this value; `ValueError` for a number that no double can hold."""
    return _spell(value).encode()


def sha256_hex(value: Any) -> str:
    """SHA-256 of the canonical spelling, lower-case hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _spell(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case bool() | None:
            return json.dumps(value)
        case int() if abs(value) <= _EXACT_MAX:
            return str(value)
        case int() | float():
            return _number(value)
        case Mapping():
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))
            return "{" + ",".join(f"{_text(name)}:{_spell(value[name])}" for name in names) + "}"
        case list() | tuple():
            return "[" + ",".join(_spell(item) for item in value) + "]"
        case _:
            raise ValueError(f"no JSON value: {type(value).__name__}")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # escapes exactly what RFC 8785 §3.2.2.2 does


def _number(value: int | float) -> str:
    """ECMAScript's Number::toString; Python's `repr` finds the same shortest digits."""
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("the number is out of range") from error
    if not math.isfinite(number):
        raise ValueError("the number is out of range")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"
