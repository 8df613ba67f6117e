"""How is a result printed: for a person, for a pipe, for a program?

stdout is data, stderr is talk. A table is aligned and cut to the width on a terminal; in a pipe the same columns are
separated by tabs, without a heading, and nothing is cut. `--json` prints one object, or one object a line for streams; its
times are RFC 3339. Colour only on a terminal, never with `NO_COLOR` set or `TERM=dumb`. Everything printed here is made safe.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TextIO

from rich.cells import cell_len, set_cell_size

from sandboxd.cli.text import one_line, shown
from sandboxd.values import frozen

_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
STATE_STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "rejected": "red",
    "canceled": "yellow",
    "input-required": "yellow",
    "working": "cyan",
}


@frozen
class Console:
    """Where a command prints. `wide` is whether stdout is a terminal; `width` is its columns."""

    out: TextIO
    err: TextIO
    wide: bool
    width: int
    colour_out: bool
    colour_err: bool

    @classmethod
    def of_process(cls) -> Console:
        """The console of this process, as its environment stands now."""
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        is_terminal = sys.stdout.isatty()
        return cls(
            sys.stdout,
            sys.stderr,
            is_terminal,
            shutil.get_terminal_size().columns,
            is_terminal and not plain,
            sys.stderr.isatty() and not plain,
        )

    def talk(self, text: str = "", *, style: str = "") -> None:
        """One line to the person, on stderr."""
        print(paint(shown(text, keep="\n\t"), style if self.colour_err else ""), file=self.err, flush=True)

    def say(self, text: str, *, style: str = "") -> None:
        """One line of data."""
        print(paint(shown(text, keep="\n\t"), style if self.colour_out else ""), file=self.out, flush=True)

    def object(self, value: Mapping[str, Any]) -> None:
        """One JSON object on one line; characters beyond ASCII are escaped, so a terminal can show it too."""
        print(json.dumps(value, separators=(",", ":")), file=self.out, flush=True)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Mapping[str, str] | None = None) -> None:
        """Aligned columns on a terminal, tab-separated ones in a pipe. `styles`: colour by a cell's text."""
        safe = [[one_line(cell, limit=10_000) for cell in row] for row in rows]
        if not self.wide:
            for row in safe:
                print("\t".join(row), file=self.out)
            return
        for line in aligned([heading.upper() for heading in headings], safe, self.width):
            cells = [paint(padded, styles.get(padded.strip(), "") if styles and self.colour_out else "") for padded in line]
            print("  ".join(cells).rstrip(), file=self.out)


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Heading and rows padded to common column widths; the last column takes what is left and is cut with `…`."""
    every = [list(headings), *[list(row) for row in rows]]
    widths = [max(cell_len(row[column]) for row in every) for column in range(len(headings))]
    left = max(width - sum(size + 2 for size in widths[:-1]), 8)
    widths[-1] = min(widths[-1], left)
    return [[_fit(cell, size) for cell, size in zip(row, widths, strict=True)] for row in every]


def paint(text: str, style: str) -> str:
    """The text in a style; no style, or no text: as it is."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text else text


def ago(now: datetime, then: datetime | None) -> str:
    """`4 min ago`; empty when it is not known."""
    if then is None:
        return ""
    passed = (now - then).total_seconds()
    if passed < 1:
        return "just now"
    return f"{passed:.0f} s ago" if passed < 10 else f"{span(passed)} ago"


def left(now: datetime, deadline: datetime | None) -> str:
    """`4:12` until then; empty when there is no deadline, `over` when it has passed."""
    if deadline is None:
        return ""
    remaining = deadline - now
    if remaining <= timedelta(0):
        return "over"
    seconds = int(remaining.total_seconds())
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def span(seconds: float) -> str:
    """A length of time for people: `3.1 s`, `41 s`, `5 min`, `3 h`, `2 d`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for limit, unit, name in ((90, 1, "s"), (90 * 60, 60, "min"), (36 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds // 86400:.0f} d"


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < 1024:
        return f"{count} B"
    scaled, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if scaled >= 1024:
            scaled, unit = scaled / 1024, larger
    return f"{scaled:.1f} {unit}"


def _fit(cell: str, width: int) -> str:
    if cell_len(cell) <= width:
        return set_cell_size(cell, width)
    return set_cell_size(cell, width - 1) + "…"
