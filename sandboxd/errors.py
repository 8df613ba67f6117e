"""Why was a caller refused, whose fault is it, and what can they do?

Each class is one *reason that a caller can act on*. `sandboxd.a2a.faults` is the one table that says how a door spells it
(JSON-RPC code, HTTP status, ErrorInfo reason, problem type). Messages read `cannot <do> <what>: <why>`; they never hold a
secret or an answer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sandboxd.values import frozen


class Fault(enum.Enum):
    """Who has to change something before the same request can succeed."""

    CALLER = "caller"
    POLICY = "policy"
    STALE = "stale"
    OURS = "ours"


@frozen
class Problem:
    """One thing that is wrong with one field: where (dotted path in the caller's own words), and why.

    `keyword` is the JSON Schema keyword that failed, where a schema said so (hitl-prompt/v1, `validation_errors`).
    """

    field: str
    reason: str
    keyword: str = ""

    def __str__(self) -> str:
        return f"`{self.field}`: {self.reason}" if self.field else self.reason


class Refusal(Exception):
    """Base of everything that a door translates into an answer; never raised itself."""

    fault: ClassVar[Fault] = Fault.CALLER

    def __init__(self, message: str, *, problems: Sequence[Problem] = (), facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.problems = tuple(problems)
        self.facts: dict[str, Any] = dict(facts or {})  # stable keys, JSON values; go out as ErrorInfo metadata


class InvalidJson(Refusal):
    """The body is no JSON (JSON-RPC 2.0, -32700)."""


class InvalidRequest(Refusal):
    """The envelope around the parameters is ill-formed (JSON-RPC 2.0, -32600)."""


class MethodNotFound(Refusal):
    """No such method, path or verb (JSON-RPC 2.0, -32601)."""


class InvalidParams(Refusal):
    """A field is missing or ill-formed; `problems` names every one of them (JSON-RPC 2.0, -32602)."""


class TaskNotFound(Refusal):
    """No such task, or none that this caller may see (A2A 1.0, 3.3.2)."""


class ArtifactNotFound(Refusal):
    """The task has no such artifact."""


class InstanceNotFound(Refusal):
    """No such instance is configured."""


class TaskNotCancelable(Refusal):
    """The task is in a terminal state already (A2A 1.0, 3.1.5)."""


class PushNotificationNotSupported(Refusal):
    """Push notifications are off (A2A 1.0, 3.3.4)."""


class UnsupportedOperation(Refusal):
    """The task, or this host, does not take that operation (A2A 1.0, 3.3.2)."""


class ContentTypeNotSupported(Refusal):
    """The media type of the body, or of a part, is not taken (A2A 1.0, 3.3.2)."""


class ExtendedCardNotConfigured(Refusal):
    """There is no extended agent card (A2A 1.0, 3.1.11)."""


class ExtensionSupportRequired(Refusal):
    """A required extension was not activated (A2A 1.0, 3.3.4)."""


class VersionNotSupported(Refusal):
    """This URL does not speak the A2A version that was asked for (A2A 1.0, 3.6.2)."""


class Unauthenticated(Refusal):
    """No credentials, or wrong ones."""


class Forbidden(Refusal):
    """The caller is known and may not do this."""


class TooLarge(Refusal):
    """The body is larger than the door's limit."""


class RangeNotSatisfiable(Refusal):
    """A byte range lies outside the artifact (RFC 9110, 15.5.17); `facts["size"]` is its size in bytes."""


class TooBusy(Refusal):
    """A bound of this host is reached; the same request can succeed later."""

    fault = Fault.OURS


class RateLimited(Refusal):
    """The caller asks more often than it may; the same request can succeed later. `facts`: `retry_after_s`."""


class NotReady(Refusal):
    """The daemon starts, stops, or its store cannot be written."""

    fault = Fault.OURS


class Internal(Refusal):
    """A fault of ours; the log has the details."""

    fault = Fault.OURS


class PromptNotOpen(Refusal):
    """The prompt is unknown, answered, stale, foreign, or its process is gone (hitl-prompt/v1, 409 / -32010).

    `facts`: `prompt_id`, and `accepted_message_id` where an answer was accepted.
    """

    fault = Fault.STALE


class AnswerInvalid(Refusal):
    """The payload does not fit the prompt's schema; the prompt is still open (hitl-prompt/v1, 422 / -32011).

    `problems` become `validation_errors`: `field` is a JSON pointer (RFC 6901). `facts`: `prompt_id`.
    """


class DeliveryFailed(Refusal):
    """The answer was valid and could not be typed (502 / -32012). `facts`: `prompt_id`, `prompt_open`."""

    fault = Fault.OURS


class MessageIdMalformed(Refusal):
    """With idempotency/v1 a message id must be a UUID, and this one is none."""


class MessageIdReused(Refusal):
    """The message id was used for another request before (idempotency/v1); `facts`: `stored_hash`, `request_hash`."""


class CursorExpired(Refusal):
    """The events after that number are no longer on record; `facts`: `first`, the first number to replay from."""

    fault = Fault.STALE


class Unable(Exception):
    """The host, or what was written for it, keeps a process of ours from working: told in one line, and no bug of ours."""


class LoadError(Unable):
    """A file that an operator wrote cannot be used: every problem in it, each with its key or line.

    Not a `Refusal`: it never reaches a client of a door.
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(f"cannot load {source}: " + "; ".join(str(problem) for problem in self.problems))
