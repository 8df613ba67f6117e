"""What came of every attack at every level, on this host? (`docs/attacks.md`)

    scripts/as-tester python -m tests.hostile.table > docs/attacks.md

An attack that gets through without isolation and nowhere else is what a level is for. One that fails without isolation too
proves nothing here: the host had no such thing, or its kernel allows it to nobody.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hostile.attacks.craft import ATTACKS
from tests.hostile.attacks.runner import ROOMS
from tests.hostile.expected import ALLOWED, ASKED, IN_THE_UNIT, LEVELS
from tests.hostile.range import Verdicts, open_range

COLUMNS = ("none", *LEVELS)
HEAD = """# What a hostile task gets, attack by attack

Each attack runs as a real task of a real daemon, all as one unprivileged user. It is judged by what it got hold of itself and
by what its victims saw: processes, sockets, terminals, files outside. **through**: it got through. Everything else is how it
was refused: an errno, `nothing` where nothing came of it, a signal where the filter killed it. Without isolation most of them
get through, which shows that they are attacks.

Written by `tests/hostile/table.py`; `tests/hostile/test_attacks.py` holds it to be true in every CI run, for every level
that the machine can keep. The sources, one short function an attack, are in `tests/hostile/attacks/`.
"""


def measured(folder: Path) -> dict[str, Verdicts]:
    """One range a column."""
    found = {}
    for number, column in enumerate(COLUMNS):
        place = folder / str(number)
        place.mkdir()
        with open_range(place, ASKED[column], mounts=column == IN_THE_UNIT) as ground:
            found[column] = ground.attack(list(ATTACKS))
    return found


def lines(found: dict[str, Verdicts]) -> list[str]:
    """The page."""
    told = [HEAD, f"| level | stopped of {len(ATTACKS)} |", "|---|---|"]
    for column, verdicts in found.items():
        told.append(f"| {column} | {sum(not verdicts.got_through(name) for name in ATTACKS)} |")
    told += ["", "## What gets through, and why that is so", ""]
    told += [f"- {', '.join(f'`{name}`' for name in names)} ({where}): {why}." for names, where, why in reasons()]
    told.append("")
    for room in ROOMS:
        if not any(attack.__module__ == room.__name__ for attack in ATTACKS.values()):
            continue
        told += [f"## {(room.__doc__ or '').splitlines()[0]}", "", f"| attack | {' | '.join(COLUMNS)} |", "|---" * 5 + "|"]
        for name, attack in ATTACKS.items():
            if attack.__module__ == room.__name__:
                words = [_cell(found[column].spelled(name)) for column in COLUMNS]
                told.append(f"| {name} | {' | '.join(words)} |")
        told.append("")
    return told


def reasons() -> list[tuple[list[str], str, str]]:
    """Attacks that get through at the same levels for the same reason; those levels; the reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(name for level in LEVELS for name in ALLOWED[level]):
        levels = [level for level in LEVELS if name in ALLOWED[level]]
        found.setdefault((", ".join(levels), ALLOWED[levels[0]][name]), []).append(name)
    return [(names, where, why) for (where, why), names in found.items()]


def _cell(word: str) -> str:
    return f"**{word}**" if word == "through" else word


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="h-") as place:
        sys.stdout.write("\n".join(lines(measured(Path(place)))).rstrip() + "\n")
