"""How are the rows shown?

Markdown for people, JSON for whoever compares runs; both say what machine it was and how busy.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.result import Row


def machine() -> dict[str, Any]:
    """Where this run took place."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cell(values: Sequence[float], unit: str) -> str:
    return f"{statistics.median(values):.3g} {unit}" if values else "–"


def line(row: Row) -> str:
    """One row of the Markdown table."""
    spelled = row.goal.spelled
    spread = f"{spelled(min(row.figures), row.unit)} … {spelled(max(row.figures), row.unit)}"
    goal = f"{'≤' if row.goal.at == 'most' else '≥'} {spelled(row.goal.bound, row.unit)}"
    cells = (
        row.what,
        row.against or "–",
        _cell(row.ours, row.unit),
        _cell(row.theirs, row.unit),
        f"**{spelled(row.figure, row.unit)}** ({spread})",
        goal,
        "met" if row.is_met else "**not met**",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def markdown(rows: Sequence[Row], where: dict[str, Any], seconds: float, failed: Sequence[str]) -> str:
    """The whole table with what it was measured on."""
    met = sum(row.is_met for row in rows)
    head = (
        f"{met} of {len(rows)} goals met, in {seconds:.0f} s on {where['cores']} cores, Linux {where['kernel']}, "
        f"Python {where['python']}, load {where['load_before']} when it began."
    )
    table = ["| what | against | ours | theirs | figure: median (least … most) | goal | |", "|---|---|---|---|---|---|---|"]
    notes = [f"- {row.what}: {row.note}" for row in rows if row.note]
    lost = [f"- NOT MEASURED: {text}" for text in failed]
    return "\n".join([head, "", *table, *map(line, rows), "", *notes, *lost]).rstrip() + "\n"


def as_json(rows: Sequence[Row], where: dict[str, Any], seconds: float, failed: Sequence[str]) -> str:
    """The same for programs."""
    document = {"machine": where, "seconds": round(seconds, 1), "rows": [row.to_json() for row in rows], "failed": list(failed)}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
