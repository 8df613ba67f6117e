"""How does each door spell a refusal?

The one table: refusal class → JSON-RPC code and message, the HTTP status with google.rpc's status name and the ErrorInfo
reason (A2A 1.0 §5.4, §9.5, §11.6), and what a problem document of the `messages:send` dialect says (RFC 9457). A test holds
that every class of `sandboxd.errors` has its row. Facts of a refusal go out everywhere: as ErrorInfo metadata (camelCase
names, text values) in 1.0, as they are in 0.3 and in problem documents.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from sandboxd import errors
from sandboxd.a2a.extensions import HITL_PROMPT
from sandboxd.a2a.jsontext import canonical_json
from sandboxd.a2a.model import TaskState
from sandboxd.a2a.versions import Version
from sandboxd.errors import Problem, Refusal
from sandboxd.values import frozen

A2A_DOMAIN: Final = "a2a-protocol.org"
HITL_DOMAIN: Final = "agentic-sandbox.aiwg.io"
PROBLEM_TYPES: Final = f"https://{HITL_DOMAIN}/errors/"
_GOOGLE: Final = "type.googleapis.com/google."
_SPELLED_OUT: Final = 10  # problems in one message; the list beside it has them all
_NOT_IN_03: Final = frozenset({-32008, -32009})  # A2A 0.3 has no such codes: an invalid request there
# What the SDKs call the errors with these codes.
_SDK_NAMES: Final = {
    -32700: "JSONParseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32001: "TaskNotFoundError",
    -32002: "TaskNotCancelableError",
    -32003: "PushNotificationNotSupportedError",
    -32004: "UnsupportedOperationError",
    -32005: "ContentTypeNotSupportedError",
    -32007: "ExtendedAgentCardNotConfiguredError",
    -32008: "ExtensionSupportRequiredError",
    -32009: "VersionNotSupportedError",
}


@frozen
class Rpc:
    """JSON-RPC: the code, and the message's fixed text."""

    code: int
    message: str


@frozen
class Http:
    """HTTP+JSON: the HTTP status, google.rpc's name of it, and the ErrorInfo reason, which JSON-RPC carries too."""

    status: int
    name: str
    reason: str


@frozen
class Dialect:
    """problem+json: status, code (and by it the type's last segment), title."""

    status: int
    code: str
    title: str


@frozen
class Row:
    """One refusal at every door."""

    rpc: Rpc
    http: Http
    dialect: Dialect


# HTTP statuses of A2A 0.3 where they are others than 1.0's. Its specification names none; these are what the server of the
# Python SDK 0.3.26 sends. (But for InvalidParams, where that says 422: hitl-prompt/v1 gives 422 a meaning of its own.)
_STATUS_03: Final[dict[int, int]] = {-32002: 409, -32003: 501, -32004: 501, -32005: 415, -32007: 404}

# Codes beside those of JSON-RPC and A2A: -32010 … -32012 are hitl-prompt/v1's, -32422 is idempotency/v1's,
# -32029 is the reference's for quotas.
TABLE: Final[dict[type[Refusal], Row]] = {
    errors.InvalidJson: Row(
        rpc=Rpc(-32700, "Invalid JSON payload"),
        http=Http(400, "INVALID_ARGUMENT", "INVALID_JSON"),
        dialect=Dialect(400, "request.invalid_json", "Body is not JSON"),
    ),
    errors.InvalidRequest: Row(
        rpc=Rpc(-32600, "Request payload validation error"),
        http=Http(400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
        dialect=Dialect(400, "request.invalid", "Request is ill-formed"),
    ),
    errors.MethodNotFound: Row(
        rpc=Rpc(-32601, "Method not found"),
        http=Http(404, "NOT_FOUND", "METHOD_NOT_FOUND"),
        dialect=Dialect(404, "request.not_found", "No such route"),
    ),
    errors.InvalidParams: Row(
        rpc=Rpc(-32602, "Invalid parameters"),
        http=Http(400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        dialect=Dialect(400, "request.invalid_params", "Invalid parameters"),
    ),
    errors.TaskNotFound: Row(
        rpc=Rpc(-32001, "Task not found"),
        http=Http(404, "NOT_FOUND", "TASK_NOT_FOUND"),
        dialect=Dialect(404, "task.not_found", "Task not found"),
    ),
    errors.ArtifactNotFound: Row(
        rpc=Rpc(-32602, "Artifact not found"),
        http=Http(404, "NOT_FOUND", "ARTIFACT_NOT_FOUND"),
        dialect=Dialect(404, "artifact.not_found", "Artifact not found"),
    ),
    errors.InstanceNotFound: Row(
        rpc=Rpc(-32602, "Instance not found"),
        http=Http(404, "NOT_FOUND", "INSTANCE_NOT_FOUND"),
        dialect=Dialect(404, "instance.not_found", "Instance not found"),
    ),
    errors.TaskNotCancelable: Row(
        rpc=Rpc(-32002, "Task cannot be canceled"),
        http=Http(400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
        dialect=Dialect(409, "task.not_cancelable", "Task cannot be canceled"),
    ),
    errors.PushNotificationNotSupported: Row(
        rpc=Rpc(-32003, "Push Notification is not supported"),
        http=Http(400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        dialect=Dialect(400, "push.not_supported", "Push notifications are not supported"),
    ),
    errors.UnsupportedOperation: Row(
        rpc=Rpc(-32004, "This operation is not supported"),
        http=Http(400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
        dialect=Dialect(409, "operation.not_supported", "Operation is not supported"),
    ),
    errors.ContentTypeNotSupported: Row(
        rpc=Rpc(-32005, "Incompatible content types"),
        http=Http(415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
        dialect=Dialect(415, "request.content_type_not_supported", "Content type is not supported"),
    ),
    errors.ExtendedCardNotConfigured: Row(
        rpc=Rpc(-32007, "Extended agent card is not configured"),
        http=Http(400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
        dialect=Dialect(400, "card.extended_not_configured", "No extended agent card"),
    ),
    errors.ExtensionSupportRequired: Row(
        rpc=Rpc(-32008, "Extension support required"),
        http=Http(400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
        dialect=Dialect(400, "extension.required_not_activated", "Required extension is not activated"),
    ),
    errors.VersionNotSupported: Row(
        rpc=Rpc(-32009, "Version not supported"),
        http=Http(400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
        dialect=Dialect(400, "version.not_supported", "A2A version is not supported"),
    ),
    errors.Unauthenticated: Row(
        rpc=Rpc(-32600, "Unauthenticated"),
        http=Http(401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
        dialect=Dialect(401, "auth.unauthenticated", "Credentials are missing or wrong"),
    ),
    errors.Forbidden: Row(
        rpc=Rpc(-32600, "Permission denied"),
        http=Http(403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
        dialect=Dialect(403, "auth.forbidden", "Permission denied"),
    ),
    errors.TooLarge: Row(
        rpc=Rpc(-32600, "Request is too large"),
        http=Http(413, "INVALID_ARGUMENT", "REQUEST_TOO_LARGE"),
        dialect=Dialect(413, "request.too_large", "Body is too large"),
    ),
    errors.RangeNotSatisfiable: Row(
        rpc=Rpc(-32602, "Range not satisfiable"),
        http=Http(416, "OUT_OF_RANGE", "RANGE_NOT_SATISFIABLE"),
        dialect=Dialect(416, "artifact.range_not_satisfiable", "Range not satisfiable"),
    ),
    errors.TooBusy: Row(
        rpc=Rpc(-32029, "Too busy"),
        http=Http(429, "RESOURCE_EXHAUSTED", "TOO_BUSY"),
        dialect=Dialect(429, "host.too_busy", "A bound of this host is reached"),
    ),
    errors.RateLimited: Row(
        rpc=Rpc(-32029, "Too many requests"),
        http=Http(429, "RESOURCE_EXHAUSTED", "RATE_LIMITED"),
        dialect=Dialect(429, "request.rate_limited", "Too many requests"),
    ),
    errors.NotReady: Row(
        rpc=Rpc(-32603, "Internal error"),
        http=Http(503, "UNAVAILABLE", "NOT_READY"),
        dialect=Dialect(503, "runtime.not_ready", "Not ready"),
    ),
    errors.Internal: Row(
        rpc=Rpc(-32603, "Internal error"),
        http=Http(500, "INTERNAL", "INTERNAL_ERROR"),
        dialect=Dialect(500, "internal", "Internal error"),
    ),
    errors.PromptNotOpen: Row(
        rpc=Rpc(-32010, "hitl_already_answered_or_unknown"),
        http=Http(409, "FAILED_PRECONDITION", "HITL_ALREADY_ANSWERED_OR_UNKNOWN"),
        dialect=Dialect(409, "hitl_already_answered_or_unknown", "Prompt is not open"),
    ),
    errors.AnswerInvalid: Row(
        rpc=Rpc(-32011, "hitl_response_invalid"),
        http=Http(422, "FAILED_PRECONDITION", "HITL_RESPONSE_INVALID"),
        dialect=Dialect(422, "hitl_response_invalid", "Response does not fit the prompt's schema"),
    ),
    errors.DeliveryFailed: Row(
        rpc=Rpc(-32012, "hitl_delivery_failed"),
        http=Http(502, "UNAVAILABLE", "HITL_DELIVERY_FAILED"),
        dialect=Dialect(502, "hitl_delivery_failed", "Answer could not be delivered"),
    ),
    errors.MessageIdMalformed: Row(
        rpc=Rpc(-32602, "Message id is malformed"),
        http=Http(400, "INVALID_ARGUMENT", "IDEMPOTENCY_MESSAGE_ID_MALFORMED"),
        dialect=Dialect(400, "idempotency.message_id_malformed", "Message id is malformed"),
    ),
    errors.MessageIdReused: Row(
        rpc=Rpc(-32422, "Message id was used for another request"),
        http=Http(422, "FAILED_PRECONDITION", "IDEMPOTENCY_KEY_REUSED"),
        dialect=Dialect(422, "idempotency.key_reused", "Message id was used for another request"),
    ),
    errors.CursorExpired: Row(
        rpc=Rpc(-32602, "Cursor has expired"),
        http=Http(410, "OUT_OF_RANGE", "CURSOR_EXPIRED"),
        dialect=Dialect(410, "cursor.expired", "Cursor has expired"),
    ),
}
_TERMINAL: Final = frozenset(state.value for state in TaskState if state.is_terminal)
_HITL: Final = (errors.PromptNotOpen, errors.AnswerInvalid, errors.DeliveryFailed)


def to_jsonrpc(refusal: Refusal, *, version: Version) -> dict[str, Any]:
    """The `error` member of a JSON-RPC answer."""
    row = _row(refusal)
    # hitl-prompt/v1 fixes the whole message; elsewhere the specs' text comes first and ours follows.
    message = row.rpc.message if isinstance(refusal, _HITL) else f"{row.rpc.message}: {explain(refusal)}"
    if version == "0.3":
        code = -32600 if row.rpc.code in _NOT_IN_03 else row.rpc.code
        data = _data_03(refusal)
        return {"code": code, "message": message} | ({"data": data} if data else {})
    return {"code": row.rpc.code, "message": message, "data": _details(refusal, row)}


def to_rest(refusal: Refusal) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the google.rpc.Status body of A2A 1.0 over HTTP+JSON."""
    row = _row(refusal)
    status = row.http.status
    if isinstance(refusal, errors.ContentTypeNotSupported) and refusal.problems:
        status = 400  # a part's media type; the media type of the body itself is HTTP's own 415
    error = {"code": status, "status": row.http.name, "message": explain(refusal), "details": _details(refusal, row)}
    return status, {"error": error}


def to_rest_03(refusal: Refusal) -> tuple[int, dict[str, Any]]:
    """The same for A2A 0.3 over HTTP+JSON: its SDKs look for `type` and `message` at the top, newer ones for `error`."""
    status, body = to_rest(refusal)
    row = _row(refusal)
    status = body["error"]["code"] = _STATUS_03.get(row.rpc.code, status)
    name = row.rpc.message if isinstance(refusal, _HITL) else _SDK_NAMES.get(row.rpc.code, "InternalError")
    return status, {"type": name, "message": explain(refusal), **body}


def to_problem(refusal: Refusal, *, instance_id: str) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the problem document of the `messages:send` dialect."""
    spelled = _row(refusal).dialect
    if isinstance(refusal, errors.UnsupportedOperation) and refusal.facts.get("state") in _TERMINAL:
        spelled = attrs.evolve(spelled, code="task.terminal", title="Task is in a terminal state")
    body = {
        "type": PROBLEM_TYPES + re.sub(r"[._]", "-", spelled.code),
        "title": spelled.title,
        "status": spelled.status,
        "detail": explain(refusal),
        "code": spelled.code,
        "trace_id": "",
        "instance_id": instance_id,
    }
    return spelled.status, {**refusal.facts, **_problem_list(refusal), **body}


def reason_of(refusal: Refusal) -> str:
    """The stable reason: what a client of A2A 1.0 reads in ErrorInfo, and what goes on record."""
    return _row(refusal).http.reason


def explain(refusal: Refusal) -> str:
    """The refusal in one text: its message, and what is wrong where."""
    if isinstance(refusal, errors.AnswerInvalid) or not refusal.problems:
        return refusal.message
    told = [str(problem) for problem in refusal.problems[:_SPELLED_OUT]]
    more = len(refusal.problems) - len(told)
    return f"{refusal.message}: {'; '.join(told)}" + (f"; and {more} more" if more else "")


def validation_errors(problems: tuple[Problem, ...]) -> list[dict[str, str]]:
    """What does not fit a prompt's schema, as hitl-prompt/v1 spells it."""
    return [{"path": problem.field, "keyword": problem.keyword, "message": problem.reason} for problem in problems]


def _row(refusal: Refusal) -> Row:
    return TABLE.get(type(refusal)) or TABLE[errors.Internal]


def _details(refusal: Refusal, row: Row) -> list[dict[str, Any]]:
    is_hitl = isinstance(refusal, _HITL)
    metadata = {_camel(name): _text(value) for name, value in refusal.facts.items() if value is not None}
    if is_hitl and not refusal.problems:
        metadata["detail"] = refusal.message  # there is no room for it in the message
    info = {"@type": f"{_GOOGLE}rpc.ErrorInfo", "reason": row.http.reason, "domain": HITL_DOMAIN if is_hitl else A2A_DOMAIN}
    details: list[dict[str, Any]] = [info | ({"metadata": metadata} if metadata else {})]
    if isinstance(refusal, errors.AnswerInvalid):
        found = {"validation_errors": validation_errors(refusal.problems)}
        details.append({"@type": f"{_GOOGLE}protobuf.Struct", "value": found})
    elif refusal.problems:
        violations = [{"field": problem.field, "description": problem.reason} for problem in refusal.problems]
        details.append({"@type": f"{_GOOGLE}rpc.BadRequest", "fieldViolations": violations})
    return details


def _data_03(refusal: Refusal) -> dict[str, Any]:
    data: dict[str, Any] = dict(refusal.facts)
    if isinstance(refusal, _HITL):
        data = {"extension": HITL_PROMPT, **data}
        if not refusal.problems:
            data["detail"] = refusal.message
    return data | _problem_list(refusal)


def _problem_list(refusal: Refusal) -> dict[str, Any]:
    if isinstance(refusal, errors.AnswerInvalid):
        return {"validation_errors": validation_errors(refusal.problems)}
    if refusal.problems:
        return {"problems": [{"field": problem.field, "reason": problem.reason} for problem in refusal.problems]}
    return {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _text(value: Any) -> str:
    """google.rpc: ErrorInfo metadata maps strings to strings."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return canonical_json(value).decode()
