"""How does a record show that nothing of it was changed, taken out or put in between?

Each entry's hash covers its number, its text and the hash before it, so an entry that was changed, taken out, moved or put in
between breaks the chain at its place. What goes by its age goes from the beginning, and the chain then stands behind the last
one that went: its `Spot` is kept. What a chain cannot show is that its end was cut off, or all of it made anew by who can
write the file: keep a `number:hash` elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sandboxd.a2a.canonical import canonical
from sandboxd.values import frozen

FIRST: Final = "0" * 64  # what stands before the first entry


@frozen
class Spot:
    """A place in a chain: the entry of that number has that hash."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


START: Final = Spot(0, FIRST)


@frozen
class Kept:
    """An entry as it stands in the record: `body` is its text, canonical JSON (RFC 8785).

    `previous` and `hash` are empty where it is from before its record was a chain.
    """

    number: int
    body: str
    previous: str
    hash: str

    @property
    def spot(self) -> Spot:
        """Its place."""
        return Spot(self.number, self.hash)

    def as_json(self, schema: str | None = None) -> dict[str, Any]:
        """One object: the entry's own fields, its number and its place in the chain; with its schema `read` takes it."""
        fields: dict[str, Any] = json.loads(self.body)
        place = {"previous": self.previous, "hash": self.hash} if self.hash else {}
        return ({"schema": schema} if schema else {}) | {"number": self.number, **fields, **place}


@frozen
class Verified:
    """A chain that holds: `count` entries behind `begins`, up to `end`, and `unchained` ones from before it was a chain."""

    begins: Spot
    end: Spot
    count: int = 0
    unchained: int = 0


class Broken(Exception):
    """The chain does not hold; the message says where, and how."""


def link(number: int, body: str, previous: str) -> str:
    """The hash of an entry behind another one."""
    return hashlib.sha256(f"{number}\n{previous}\n{body}".encode()).hexdigest()


def follow(last: Spot, body: str) -> Kept:
    """The entry of that text, behind `last`."""
    number = last.number + 1
    return Kept(number, body, last.hash, link(number, body, last.hash))


def read(lines: Iterable[str], schemas: Mapping[str, str]) -> Iterator[Kept]:
    """The entries of an export, one a line, all of one of these schemas (with what each is called); `Broken`."""
    found: str | None = None
    for count, line in enumerate(lines, start=1):
        try:
            fields: dict[str, Any] = json.loads(line)
            schema, number = fields.pop("schema"), fields.pop("number")
            previous, hashed = fields.pop("previous", ""), fields.pop("hash", "")
            if schema != (found or schema) or schema not in schemas or isinstance(number, bool):
                raise ValueError
            found = schema
            yield Kept(int(number), canonical(fields).decode(), str(previous), str(hashed))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            what = schemas[found] if found else " or ".join(schemas.values())
            raise Broken(f"line {count} is no entry of {what}") from None


def verify(
    entries: Iterable[Kept],
    anchors: Mapping[int, str] | None = None,
    *,
    begins: Spot | None = START,
    older_to: int | None = 0,
) -> Verified:
    """Walk the chain from its first entry to its last; `Broken`.

    `anchors`: numbers with the hashes that were kept elsewhere; each must be there. `begins`: behind which spot the first
    entry stands; None: behind the one that it names itself. `older_to`: up to that number entries are from before the record
    was a chain, and have no hash; None: it is not known up to which.
    """
    known, unchained, count = dict(anchors or {}), 0, 0
    start = begins if begins is None or older_to is None or begins.number >= older_to else Spot(older_to, FIRST)
    last = start
    for entry in entries:
        if not entry.hash and not count and (older_to is None or entry.number <= older_to):
            unchained += 1
            continue
        if last is None:
            start = last = Spot(entry.number - 1, FIRST if unchained else entry.previous)
        _check(entry, last)
        if known.pop(entry.number, entry.hash) != entry.hash:
            raise Broken(f"entry {entry.number} is another one than the one that was kept elsewhere")
        last, count = entry.spot, count + 1
    start, last = start or START, last or START
    if known.get(start.number) == start.hash:
        del known[start.number]
    if known:
        _miss(min(known), start, last)
    return Verified(start, last, count, unchained)


def _check(entry: Kept, last: Spot) -> None:
    number = last.number + 1
    if entry.number != number:
        raise Broken(f"entry {number} is missing: entry {entry.number} stands in its place")
    if entry.previous != last.hash:
        raise Broken(f"entry {number} does not follow the one before it")
    if link(number, entry.body, last.hash) != entry.hash:
        raise Broken(f"entry {number} was changed")


def _miss(number: int, begins: Spot, end: Spot) -> None:
    if number == begins.number:
        raise Broken(f"entry {number}, behind which the record begins, is another one than the one that was kept elsewhere")
    if number < begins.number:
        raise Broken(f"entry {number} is no longer there: the record begins behind {begins.number}")
    raise Broken(f"entry {number} is missing: the record ends at {end.number}")
