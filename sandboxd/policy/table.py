"""Which keys may a table of an operator's file have, and what is wrong with each of them?

Strict reading of TOML for policies and the config: every problem is collected with its key path, an unknown key is told
together with the closest known one, and sizes and durations carry their unit. A value that is wrong reads as its default, so
that one pass finds everything.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sandboxd.errors import LoadError, Problem
from sandboxd.policy.exec_text import shown

_DURATION_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZE_BYTES: Final = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


def parse_toml(source: str, text: str) -> dict[str, Any]:
    """The file's tables; `LoadError` with line and column when it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise LoadError(source, [Problem("", f"is no TOML: {error}")]) from error


def parse_duration(text: str) -> float | None:
    """Seconds in `200ms`, `30s`, `5m`, `1h`, `7d`; None when it is no duration."""
    found = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    return int(found[1]) * _DURATION_S[found[2]] if found else None


def parse_size(text: str) -> int | None:
    """Bytes in `512B`, `64KiB`, `16MiB`, `1GiB`; None when it is no size."""
    found = re.fullmatch(r"([0-9]{1,9})(B|KiB|MiB|GiB|TiB)", text)
    return int(found[1]) * _SIZE_BYTES[found[2]] if found else None


def spell_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads as this; whole milliseconds."""
    for unit in ("d", "h", "m", "s"):
        if seconds % _DURATION_S[unit] == 0:
            return f"{int(seconds // _DURATION_S[unit])}{unit}"
    return f"{round(seconds * 1000)}ms"


def spell_size(count: int) -> str:
    """The shortest text that `parse_size` reads as this."""
    unit = next(unit for unit in reversed(_SIZE_BYTES) if count % _SIZE_BYTES[unit] == 0)
    return f"{count // _SIZE_BYTES[unit]}{unit}"


def closest(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` for a misspelled word, else nothing."""
    like = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean `{like[0]}`?" if like else ""


class Table:
    """One TOML table that is being read; `problems` is shared by all tables of a file. Call `close` when all is read."""

    def __init__(self, values: Mapping[str, Any], problems: list[Problem], at: str = "") -> None:
        self.values = values
        self.problems = problems
        self.at = at
        self._asked: dict[str, None] = {}

    def problem(self, key: str, reason: str) -> None:
        """Note what is wrong with one of this table's keys."""
        self.problems.append(Problem(self.path(key), reason))

    def path(self, key: str) -> str:
        """The key as an operator finds it in the file."""
        plain = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else shown(key)[1:-1]
        return ".".join(step for step in (self.at, plain) if step)

    def has(self, key: str) -> bool:
        """Whether the key is written down."""
        self._asked[key] = None
        return key in self.values

    def text(self, key: str, default: str | None = None) -> str:
        """A string; without a default the key is required, and must not be empty."""
        if not self._is_written(key, required=default is None):
            return default or ""
        value = self.values[key]
        if not isinstance(value, str):
            self.problem(key, "must be a string")
        elif default is None and not value:
            self.problem(key, "must not be empty")
        elif "\0" in value:
            self.problem(key, "must not contain a NUL character")
        else:
            return value
        return default or ""

    def word(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """One of some words; an illegal one reads as the first."""
        words = list(allowed)
        value = self.text(key, default)
        if value in words:
            return value
        if isinstance(self.values.get(key), str) and value:
            self.problem(key, f"must be one of {listed(words)}, not {shown(value)}{closest(value, words)}")
        return default or words[0]

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of strings, empty when it is left out; `required`: at least one."""
        if not self._is_written(key, required=required):
            return ()
        value = self.values[key]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem(key, "must be a list of strings")
            return ()
        if required and not value:
            self.problem(key, "must have at least one element")
        if any("\0" in item for item in value):
            self.problem(key, "must not contain a NUL character")
            return ()
        return tuple(value)

    def mapping(self, key: str) -> dict[str, str]:
        """A table of strings, empty when it is left out."""
        if not self._is_written(key, required=False):
            return {}
        value = self.values[key]
        if not isinstance(value, dict):
            self.problem(key, "must be a table of strings")
            return {}
        inner = Table(value, self.problems, self.path(key))
        return {name: inner.text(name, "") for name in value}

    def flag(self, key: str, default: bool | None = None) -> bool | None:
        """True, false, or the default."""
        if not self._is_written(key, required=False):
            return default
        if isinstance(self.values[key], bool):
            return bool(self.values[key])
        self.problem(key, "must be `true` or `false`")
        return default

    def number(self, key: str, default: int, *, least: int = 1, most: int = 2**31 - 1) -> int:
        """A whole number within bounds."""
        if not self._is_written(key, required=False):
            return default
        value = self.values[key]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problem(key, f"must be a whole number from {least} to {most}")
        return default

    def duration(self, key: str, default_s: float, *, least_s: float = 0.001, most_s: float = 366 * 86_400) -> float:
        """Seconds within bounds, written with a unit."""
        if not self._is_written(key, required=False):
            return default_s
        value = self.values[key]
        seconds = parse_duration(value) if isinstance(value, str) else None
        if seconds is None:
            self.problem(key, 'must be a duration with its unit, such as "200ms", "30s", "5m" or "1h"')
        elif not least_s <= seconds <= most_s:
            self.problem(key, f"must be from {least_s:g} s to {most_s:g} s")
        else:
            return seconds
        return default_s

    def size(self, key: str, default_bytes: int, *, least_bytes: int = 1, most_bytes: int = 2**50) -> int:
        """Bytes within bounds, written with a unit."""
        if not self._is_written(key, required=False):
            return default_bytes
        value = self.values[key]
        count = parse_size(value) if isinstance(value, str) else None
        if count is None:
            self.problem(key, 'must be a size with its unit, such as "512B", "64KiB", "16MiB" or "1GiB"')
        elif not least_bytes <= count <= most_bytes:
            self.problem(key, f"must be from {least_bytes} to {most_bytes} bytes")
        else:
            return count
        return default_bytes

    def table(self, key: str, *, required: bool = False) -> Table:
        """A table within this one, empty when it is left out."""
        if not self._is_written(key, required=required):
            return Table({}, self.problems, self.path(key))
        value = self.values[key]
        if not isinstance(value, dict):
            self.problem(key, "must be a table")
            value = {}
        return Table(value, self.problems, self.path(key))

    def tables(self, key: str) -> list[Table]:
        """The tables of `[[key]]`, in the file's order; each is named `key.N`, from 1."""
        if not self._is_written(key, required=False):
            return []
        value = self.values[key]
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.problem(key, f"must be written as `[[{self.path(key)}]]` tables")
            return []
        return [Table(item, self.problems, f"{self.path(key)}.{number}") for number, item in enumerate(value, 1)]

    def close(self) -> None:
        """Tell every key that nobody asked for."""
        for key in self.values:
            if key not in self._asked:
                known = list(self._asked)
                self.problem(key, f"unknown key{closest(key, known)}" + (f" (known here: {listed(known)})" if known else ""))

    def _is_written(self, key: str, *, required: bool) -> bool:
        if self.has(key):
            return True
        if required:
            self.problem(key, "is missing")
        return False


def listed(words: Iterable[str]) -> str:
    """`a`, `b`, `c`."""
    return ", ".join(f"`{word}`" for word in words)
