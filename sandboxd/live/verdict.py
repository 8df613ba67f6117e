"""How did it end, and whose doing was it?

adapter-command/v1, Task State: exit 0 completed; exit n failed, application; everything else failed, infrastructure, each
with a reason of its own. An ending that somebody asked for (`Ending`) wins over the exit status that it brought about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs

from sandboxd.runner.process import ExitStatus
from sandboxd.tasks.events import FailKind, Finished, Reason
from sandboxd.values import frozen


@frozen
class Ending:
    """Why a run was made to end. `detail` (who, their reason) goes on record."""

    reason: Reason
    detail: Mapping[str, Any] = attrs.field(factory=dict)


def finished(
    at: datetime,
    message_id: str,
    status: ExitStatus,
    ending: Ending | None,
    *,
    timeout_s: int,
    survivors: Sequence[int] = (),
) -> Finished:
    """The terminal event for this exit. `survivors`: pids of the tree that could not be ended, which must not be kept quiet."""
    reason, fail_kind, summary = _verdict(status, ending, timeout_s)
    detail = dict(ending.detail) if ending else {}
    if survivors:
        detail["survivors"] = list(survivors)
        summary += f" {len(survivors)} of its processes could not be ended: they hang in the kernel."
    return Finished(at, message_id, reason, fail_kind, summary, status.code, status.signal, detail)


def _verdict(status: ExitStatus, ending: Ending | None, timeout_s: int) -> tuple[Reason, FailKind | None, str]:
    if ending is not None:
        texts: dict[Reason, str] = {
            "timeout": f"The command ran into its limit of {timeout_s} s and was ended.",
            "canceled": "The task was canceled and the command ended.",
            "daemon-stopped": "The daemon was stopped, and the command with it; an open question can no longer be answered.",
            "prompt-expired": "Nobody answered the question in time, and the policy fails the task then.",
            "secret-asked": "The command asked for a secret, which its policy does not relay, and was ended.",
            "prompt-limit": "The command asked more questions than its policy allows and was ended.",
            "event-limit": "More happened than the log of one task may hold (`max_events`), and the command was ended.",
            "no-valid-answer": "There was no valid answer within the tries that the policy allows, and the command was ended.",
            "internal": "A fault of the daemon ended the command; its log has the details.",
        }
        if ending.reason == "canceled":
            return "canceled", None, texts["canceled"]
        return ending.reason, "infrastructure", texts[ending.reason]
    if status.spawner_died:
        return "spawner-died", "infrastructure", "The process that starts commands died, and this command with it."
    if status.oom:
        return "oom", "infrastructure", "The command was ended by the kernel: there was not enough memory for it."
    if status.full:
        why = "It had more temporary files than its policy allows (`tmp`), and was ended."
        return "tmp-limit", "infrastructure", why
    if status.signal is not None:
        return "signal", "infrastructure", f"The command was ended by {status.signal}, which the daemon did not send."
    if status.code == 0:
        return "exit", None, "The command exited with 0."
    return "exit", "application", f"The command exited with {status.code}."
