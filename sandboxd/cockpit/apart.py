"""What of a host's list can be read, where a part of it is no good JSON?

`a2a.jsontext` refuses a text as a whole, which is right for one task, and lets one task hide all others in a list. Here each
task of a list is judged by itself: a `Fault` stands in the place of one that is spoiled.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from sandboxd.a2a.jsontext import MAX_DEPTH
from sandboxd.values import frozen

_ID_MAX_CHARS: Final = 256
_DIGITS_MAX: Final = 4300  # CPython's own limit for one integer


@frozen
class Fault:
    """Stands where a value cannot be read; with the ids of a task that is spoiled, as far as they can be."""

    why: str
    task_id: str = ""
    context_id: str = ""


class _Twice(dict[str, Any]):
    """An object in which a name stands twice: two readers may see different things."""


def read_apart(data: bytes) -> Any:
    """The page; `ValueError` or `RecursionError` where it cannot be read beside its tasks."""
    page = _DECODER.decode(data.decode("utf-8", "surrogateescape"))  # what is no UTF-8 becomes half a pair
    found = page.get("result", page) if isinstance(page, dict) else page
    tasks = found.get("tasks") if isinstance(found, dict) else None
    if isinstance(tasks, list):
        found["tasks"] = []
    if (why := _fault_in(page)) is not None:
        raise ValueError(why)
    if isinstance(tasks, list):
        found["tasks"] = [one if (why := _fault_in(one)) is None else _spoiled(one, why) for one in tasks]
    return page


def _spoiled(task: Any, why: str) -> Fault:
    ids = [task.get(name) if isinstance(task, dict) else None for name in ("id", "contextId")]
    return Fault(why, *(one if isinstance(one, str) and len(one) <= _ID_MAX_CHARS and _is_text(one) else "" for one in ids))


def _fault_in(value: Any) -> str | None:
    """What is wrong within it; None: nothing, as in what `parse_json` lets through."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for node in level:
            match node:
                case Fault(why=why):
                    return why
                case str() if not _is_text(node):
                    return "a string is no text: half of a surrogate pair, or no UTF-8"
                case _Twice():
                    return "a name stands twice in one object"
                case dict():
                    below += [*node, *node.values()]
                case list():
                    below += node
        if not below:
            return None
        level = below
    return f"it is nested deeper than {MAX_DEPTH} levels"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Twice(made)


def _float(digits: str) -> float | Fault:
    number = float(digits)
    return number if math.isfinite(number) else Fault("a number is out of range")


def _integer(digits: str) -> int | Fault:
    return int(digits) if len(digits) <= _DIGITS_MAX else Fault("a number has too many digits")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_float,
    parse_int=_integer,
    parse_constant=lambda word: Fault(f"`{word}` is no JSON value"),
    strict=False,
)
