"""With which code does `run` end, and how does it sum up?

The child's own code is passed on; a signal is 128 + its number; 124, 123 and 125 are ours (timeout(1), docker run).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from sandboxd.cli.console import span
from sandboxd.cli.exits import Exit, signal_exit


def exit_code(state: str, outcome: Mapping[str, Any]) -> int:
    """The exit code for a task's end, unless the person at the terminal ended it."""
    code, name = outcome.get("exit_code"), outcome.get("signal")
    match state, outcome.get("reason"):
        case "completed", _:
            return Exit.DONE
        case _, "exit" if isinstance(code, int | float):
            return int(code)
        case _, "signal":
            return signal_exit(signal_number(str(name)))
        case _, "timeout":
            return Exit.RUN_TIMEOUT
        case _, "prompt-expired":
            return Exit.RUN_UNANSWERED
        case "canceled", _:
            return Exit.INTERRUPTED
        case _:
            return Exit.RUN_REFUSED


def signal_number(name: str) -> int:
    """`SIGKILL`, `KILL` or `9`; 0 when it is none that this machine knows."""
    if name.isdigit():
        return int(name)
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
    except KeyError:
        return 0


def result_line(state: str, outcome: Mapping[str, Any], *, took_s: float, questions: int, task_id: str) -> str:
    """`failed in 41 s · exit 3 · 1 question · task 7f3a…`."""
    how = ""
    if outcome.get("exit_code") is not None:
        how = f"exit {int(outcome['exit_code'])}"
    elif outcome.get("signal"):
        how = f"ended by {outcome['signal']}"
    elif outcome.get("reason") not in (None, "exit"):
        how = str(outcome["reason"])
    asked = f"{questions} question{'s' if questions != 1 else ''} answered" if questions else ""
    return " · ".join(part for part in (f"{state} in {span(took_s)}", how, asked, f"task {task_id}") if part)
