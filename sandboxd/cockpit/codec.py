"""How does an approval stand on disk?

As JSON with a version, strict both ways: what was written is read back equal, and anything else is `Undecodable`, never guessed
at. Every field is written out, so that a default that changes later does not change what an open question was born with.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from cattrs import Converter

from sandboxd.approvals.events import Deliver, Fence, Inquire
from sandboxd.approvals.record import Approval

T = TypeVar("T")

VERSION: Final = 1
Wire = Deliver | Inquire | Fence
_WIRES: Final[dict[str, type[Wire]]] = {"deliver": Deliver, "inquire": Inquire, "fence": Fence}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


class Undecodable(Exception):
    """A stored text is not what this version writes."""


def to_us(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _TICK


def from_us(moment_us: int) -> datetime:
    """The inverse of `to_us`."""
    return _EPOCH + moment_us * _TICK


def encode(approval: Approval) -> str:
    """All of it, as one line of JSON."""
    return json.dumps({"v": VERSION, **_CONVERTER.unstructure(approval)}, separators=(",", ":"))


def decode(text: str) -> Approval:
    """The approval that `encode` was given; `Undecodable`."""
    approval: Approval = _structure(text, Approval)
    return approval


def encode_value(value: Any) -> str:
    """Any frozen value of a room beside, in the same spelling."""
    return json.dumps({"v": VERSION, **_CONVERTER.unstructure(value)}, separators=(",", ":"))


def decode_value(text: str, cls: type[T]) -> T:
    """The value that `encode_value` was given; `Undecodable`."""
    value: T = _structure(text, cls)
    return value


def encode_wire(wire: Wire) -> tuple[str, str]:
    """The kind of a call that is to be made, and the rest of it as JSON."""
    kind = next(kind for kind, cls in _WIRES.items() if isinstance(wire, cls))
    return kind, json.dumps({"v": VERSION, **_CONVERTER.unstructure(wire)}, separators=(",", ":"))


def decode_wire(kind: str, text: str) -> Wire:
    """The call that `encode_wire` was given; `Undecodable`."""
    if kind not in _WIRES:
        raise Undecodable(f"unknown kind of call `{kind}`")
    wire: Wire = _structure(text, _WIRES[kind])
    return wire


def _structure(text: str, cls: type[Any]) -> Any:
    try:
        fields = json.loads(text)
        if fields.pop("v", None) != VERSION:
            raise ValueError("another version")
        return _CONVERTER.structure(fields, cls)
    except Exception as error:  # cattrs raises groups of whatever went wrong with each field
        raise Undecodable(f"a stored {cls.__name__} cannot be read: {type(error).__name__}") from error


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(datetime, to_us)
    converter.register_structure_hook(datetime, lambda value, _: from_us(value))
    converter.register_unstructure_hook(timedelta, lambda value: value // _TICK)
    converter.register_structure_hook(timedelta, lambda value, _: value * _TICK)
    converter.register_unstructure_hook_func(lambda cls: cls == frozenset[str], sorted)
    return converter


_CONVERTER: Final = _converter()
