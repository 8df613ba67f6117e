"""Is this regular expression safe to run on text that a hostile program writes?

A pattern is code, and it runs in the one loop that serves everybody; a thread could not time it out, for it holds the
interpreter's lock. So the parsed pattern is walked when it is loaded, and its worst case is counted: every way that a
variable repeat can be cut short multiplies the work behind it, unless the next character tells where it must end.
Ways out for a pattern that is refused: a bounded repeat, a possessive one (`*+`), an atomic group (`(?>…)`).
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

PATTERN_MAX_CHARS: Final = 600
TEXT_MAX_CHARS: Final = 1024  # of a line that rules are matched against
_STEPS_MAX: Final = 4 * TEXT_MAX_CHARS * TEXT_MAX_CHARS  # about 50 ms in the worst case, and that only once a settle time

_parser: Any = importlib.import_module("re._parser")  # the only parser that agrees with `re`; it has no public name
_constants: Any = importlib.import_module("re._constants")
# What two sets of characters are compared on; the pattern's own characters are added.
_PROBES: Final = frozenset(map(chr, range(0x180))) | frozenset("\u00a0\u2026\u3000あ한中Жאア！？：👍")

Parsed = Sequence[tuple[Any, Any]]


class PatternRefused(ValueError):
    """Why the pattern cannot be used."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled pattern, for `search`; `PatternRefused` says why not."""
    if len(pattern) > PATTERN_MAX_CHARS:
        raise PatternRefused(f"has {len(pattern)} characters, at most {PATTERN_MAX_CHARS} are allowed")
    try:
        compiled = re.compile(pattern)
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(f"is no regular expression: {error}") from None
    items = list(parsed)
    more = {form for char in pattern for form in (char, char.lower(), char.upper()) if len(form) == 1}
    probes = _PROBES if more <= _PROBES else _PROBES | more
    if _begins_unbounded(items):
        raise PatternRefused("begins with an unbounded repeat: `search` finds the pattern anywhere, leave it out")
    starts = 1 if _is_anchored(items) and not compiled.flags & re.MULTILINE else TEXT_MAX_CHARS
    steps = starts * _Walk(probes).cost(items, 1, None)
    if steps > _STEPS_MAX:
        raise PatternRefused(
            "may take too long on a hostile line: repeats follow one another without a character between them that tells "
            "where the first one ends"
        )
    return compiled


def _is_anchored(items: Parsed) -> bool:
    return bool(items) and str(items[0][0]) == "AT" and str(items[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")


def _begins_unbounded(items: Parsed) -> bool:
    for op, value in items:
        match str(op):
            case "SUBPATTERN":
                return _begins_unbounded(value[3])
            case "MAX_REPEAT" | "MIN_REPEAT":
                return bool(value[1] > TEXT_MAX_CHARS)
            case "BRANCH":
                return any(_begins_unbounded(branch) for branch in value[1])
            case _:
                return False
    return False


class _Walk:
    """Counts steps from right to left; the characters that may follow are passed along."""

    def __init__(self, probes: frozenset[str]) -> None:
        self._probes = probes
        self._known: dict[tuple[str, int], tuple[frozenset[str], bool]] = {}  # by the part's identity: it outlives the walk

    def cost(self, items: Parsed, rest: int, follow: frozenset[str] | None) -> int:
        """Steps that one attempt can take, where what stands behind it takes `rest` and begins with `follow` (None: any)."""
        total = rest
        for op, value in reversed(list(items)):
            total = self._one(str(op), value, total, follow)
            first, is_empty = self._first([(op, value)])
            follow = first if not is_empty else (None if follow is None else first | follow)
        return total

    def _one(self, op: str, value: Any, rest: int, follow: frozenset[str] | None) -> int:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT":
                return rest
            case "SUBPATTERN":
                return self.cost(value[3], rest, follow)
            case "ATOMIC_GROUP":
                return self.cost(value, 1, None) + rest
            case "ASSERT" | "ASSERT_NOT":
                return self.cost(value[1], 1, None) + rest
            case "BRANCH":
                costs = [self.cost(branch, rest, follow) for branch in value[1]]
                return max(costs) if self._is_told_apart(value[1]) else sum(costs)
            case "POSSESSIVE_REPEAT":
                body = self.cost(value[2], 1, None)
                total = min(int(value[1]), TEXT_MAX_CHARS) * body
                if body <= 2 * TEXT_MAX_CHARS:  # what one round has taken, no other round looks at again
                    total = min(total, TEXT_MAX_CHARS + body)
                return total + rest
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(int(value[0]), int(value[1]), value[2], rest, follow)
            case "GROUPREF" | "GROUPREF_EXISTS":
                raise PatternRefused("refers back to a group, which is not allowed")
            case _:
                raise PatternRefused(f"uses `{op.lower()}`, which is not allowed")

    def _repeat(self, least: int, most: int, body: Parsed, rest: int, follow: frozenset[str] | None) -> int:
        first, _ = self._first(body)
        is_told = follow is not None and not first & follow  # the next character tells whether to go on
        if most <= 1:
            return self.cost(body, rest, follow) + (1 if is_told else rest)
        if not self._is_plain(body):
            raise PatternRefused(
                "repeats something that can itself match in several ways (nested repetition); write the inner or the outer "
                "repeat possessive (`++`, `*+`)"
            )
        ways = min(most, TEXT_MAX_CHARS) - least + 1
        return ways + rest if is_told else ways * rest

    def _is_plain(self, items: Parsed) -> bool:
        """Whether it matches a given text in at most one way."""
        for op, value in items:
            match str(op):
                case "MAX_REPEAT" | "MIN_REPEAT":
                    if value[0] != value[1] or not self._is_plain(value[2]):
                        return False
                case "SUBPATTERN":
                    if not self._is_plain(value[3]):
                        return False
                case "BRANCH":
                    if not self._is_told_apart(value[1]) or not all(self._is_plain(branch) for branch in value[1]):
                        return False
                case "POSSESSIVE_REPEAT" | "ATOMIC_GROUP":
                    self.cost(value[2] if str(op) == "POSSESSIVE_REPEAT" else value, 1, None)
                case _:
                    pass
        return True

    def _is_told_apart(self, branches: Sequence[Parsed]) -> bool:
        """Whether the first character tells which one of them it can be."""
        seen: set[str] = set()
        for branch in branches:
            first, is_empty = self._first(branch)
            if is_empty or seen & first:
                return False
            seen |= first
        return True

    def _first(self, items: Iterable[tuple[Any, Any]]) -> tuple[frozenset[str], bool]:
        """The probes that it can begin with, and whether it can match nothing at all."""
        found: frozenset[str] = frozenset()
        for op, value in items:
            part = (str(op), id(value))
            if part not in self._known:  # each part is met once for each level that it lies below
                self._known[part] = self._first_of(part[0], value)
            first, is_empty = self._known[part]
            found |= first
            if not is_empty:
                return found, False
        return found, True

    def _first_of(self, op: str, value: Any) -> tuple[frozenset[str], bool]:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._set(op, value), False
            case "SUBPATTERN":
                return self._first(value[3])
            case "ATOMIC_GROUP":
                return self._first(value)
            case "BRANCH":
                parts = [self._first(branch) for branch in value[1]]
                return frozenset().union(*(first for first, _ in parts)), any(is_empty for _, is_empty in parts)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                first, is_empty = self._first(value[2])
                return first, is_empty or value[0] == 0
            case "AT" if str(value) in ("AT_END", "AT_END_STRING"):
                return frozenset(), False  # nothing follows: no repeat can be confused with it
            case _:
                return frozenset(), True

    def _set(self, op: str, value: Any) -> frozenset[str]:
        match op:
            case "LITERAL":
                return _forms(chr(value))
            case "NOT_LITERAL":
                return self._probes - {chr(value)}  # without case: too many rather than too few
            case "ANY":
                return self._probes
            case _:
                found = self._members(value)
                if value and str(value[0][0]) == "NEGATE":
                    return self._probes - found
        return frozenset().union(*map(_forms, found))

    def _members(self, members: Iterable[tuple[Any, Any]]) -> set[str]:
        found: set[str] = set()
        for op, value in members:
            match str(op):
                case "LITERAL":
                    found.add(chr(value))
                case "RANGE":
                    found |= _of_range(value[0], value[1], self._probes)
                case "CATEGORY":
                    found |= _of_category(str(value), self._probes)
                case _:
                    pass
        return found


@functools.lru_cache(maxsize=1024)  # the packs' patterns have some hundred characters, each many times
def _forms(char: str) -> frozenset[str]:
    return frozenset((char, char.lower(), char.upper()))


@functools.lru_cache(maxsize=64)
def _of_range(first: int, last: int, probes: frozenset[str]) -> frozenset[str]:
    return frozenset(char for char in probes if first <= ord(char) <= last)


@functools.lru_cache(maxsize=64)
def _of_category(name: str, probes: frozenset[str]) -> frozenset[str]:
    category = re.compile(_CATEGORIES[name])
    return frozenset(char for char in probes if category.match(char))


_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
