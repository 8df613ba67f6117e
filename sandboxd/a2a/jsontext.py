"""Is this body JSON that we are willing to read, and how is a JSON value spelled?

Stricter than Python's own reader where two readers of one text could see different things (RFC 7493, I-JSON): UTF-8 alone,
no duplicate names, no NaN or Infinity (also not as `1e999`), no lone surrogates. What comes out of `parse_json` can therefore
always be encoded, stored and sent again, and integers stay integers.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from sandboxd.errors import InvalidJson

MAX_DEPTH: Final = 100  # protobuf's own limit for nested messages; hitl-prompt/v1 S-2 speaks of 32 for a schema
# Python's `splitlines`, which clients cut event streams with, ends lines here too; the other such characters JSON escapes.
_LINE_ENDS: Final = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(body: bytes) -> Any:
    """The value in `body`; `InvalidJson` says why there is none."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"cannot read the body: byte {error.start} is not UTF-8") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"cannot read the body: {_lower(error.msg)} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InvalidJson(f"cannot read the body: it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # ours below, and CPython's own limit of 4,300 digits for one integer
        raise InvalidJson(f"cannot read the body: {_lower(str(error).partition(';')[0])}") from None
    if _is_deeper(value, MAX_DEPTH):
        raise InvalidJson(f"cannot read the body: it is nested deeper than {MAX_DEPTH} levels")
    if _SURROGATE_ESCAPE.search(text):
        try:
            dump_json(value)
        except UnicodeEncodeError:
            raise InvalidJson("cannot read the body: a string contains half of a surrogate pair") from None
    return value


def dump_json(value: Any) -> bytes:
    """The value as compact UTF-8 JSON on one line, whatever a reader of event streams takes for the end of a line."""
    text = _ENCODER.encode(value)
    for end, escape in _LINE_ENDS:
        text = text.replace(end, escape)
    return text.encode()


def canonical_json(value: Any) -> bytes:
    """The same bytes for equal values: names sorted, no blanks. Close to RFC 8785 and enough for a digest of our own."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True).encode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the name `{_clip(name)}` stands twice in one object")
            seen.add(name)
    return made


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number `{_clip(digits)}` is out of range")
    return number


def _constant(word: str) -> NoReturn:
    raise ValueError(f"`{word}` is no JSON value")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def _is_deeper(value: Any, limit: int) -> bool:
    """Level by level, so that neither a deep nor a wide value costs a Python call for each node."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def _clip(text: str) -> str:
    return text if len(text) <= 64 else text[:64] + "…"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
