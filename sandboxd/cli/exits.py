"""With which code does a command end, and how does it say why?

The one table of exit codes; scripts may rely on it. `run` passes on its child's own code, so its own codes lie at the top,
where `timeout(1)` and `docker run` have theirs. A `Failure` carries the code, the message and what to do next.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn

from sandboxd.errors import LoadError, Problem, Refusal


class Exit(enum.IntEnum):
    """Exit codes of every command; the four above 122 belong to `run` alone, except 130 (interrupted)."""

    DONE = 0
    OTHER = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5  # already answered, unknown, no live process, not cancelable
    INVALID_ANSWER = 6
    EXPIRED = 7  # the prompt expired, or was closed without an answer
    PENDING = 8  # a bounded wait ran out, nothing is wrong yet (as `gh pr checks`)
    UNREACHABLE = 9
    RUN_UNANSWERED = 123
    RUN_TIMEOUT = 124  # as timeout(1)
    RUN_REFUSED = 125  # refused, wrong usage, or could not start (as docker run)
    INTERRUPTED = 130


class Failure(Exception):
    """A command ends with `code` and says `message`; `hint` is the next thing to try, `problems` are listed below."""

    def __init__(self, message: str, code: Exit = Exit.OTHER, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = int(code)
        self.hint = hint
        self.problems = tuple(problems)


def signal_exit(number: int) -> int:
    """The code of a child that a signal ended, as shells report it."""
    return 128 + number


def of_response(status: int, reason: str) -> Exit:
    """The code for an HTTP error of the daemon: by its stable reason where there is one, else by its status."""
    by_reason = {
        "TASK_NOT_FOUND": Exit.NOT_FOUND,
        "ARTIFACT_NOT_FOUND": Exit.NOT_FOUND,
        "INSTANCE_NOT_FOUND": Exit.NOT_FOUND,
        "TASK_NOT_CANCELABLE": Exit.CONFLICT,
        "UNSUPPORTED_OPERATION": Exit.CONFLICT,
        "HITL_ALREADY_ANSWERED_OR_UNKNOWN": Exit.CONFLICT,
        "HITL_RESPONSE_INVALID": Exit.INVALID_ANSWER,
    }
    by_status = {
        401: Exit.NOT_ALLOWED,
        403: Exit.NOT_ALLOWED,
        404: Exit.NOT_FOUND,
        409: Exit.CONFLICT,
        422: Exit.INVALID_ANSWER,
        503: Exit.UNREACHABLE,
    }
    return by_reason.get(reason.upper()) or by_status.get(status) or Exit.OTHER


def of_refusal(refusal: Refusal) -> NoReturn:
    """Raise the `Failure` for a refusal of the in-process engine: `run` refuses with one code, whatever the reason."""
    raise Failure(refusal.message, Exit.RUN_REFUSED, problems=refusal.problems) from refusal


def of_load_error(error: LoadError, code: Exit = Exit.OTHER) -> Failure:
    """The `Failure` for a file of the operator's that cannot be used."""
    return Failure(f"cannot load `{error.source}`", code, problems=error.problems)


def as_json(failure: Failure) -> dict[str, Any]:
    """The error as `--json` prints it, on stderr."""
    spelled: dict[str, Any] = {"schema": "sandboxd.error/1", "error": failure.message, "exit": failure.exit_code}
    if failure.hint:
        spelled["hint"] = failure.hint
    if failure.problems:
        spelled["problems"] = [{"field": problem.field, "reason": problem.reason} for problem in failure.problems]
    return spelled
