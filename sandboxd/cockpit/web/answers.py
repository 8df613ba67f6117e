"""How is a value, or a refusal, put into an answer of the cockpit?

A refusal is `{"error": {"what", "why", "do", "code"}}`, its words those of every other message: `cannot <do> <what>: <why>`.
What does not fit stands in `validation_errors`, each with its place as a JSON pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import quart

from sandboxd import errors
from sandboxd.a2a.jsontext import dump_json
from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.errors import Refusal
from sandboxd.serving.refusals import House, headers_of, refusal_of

JSON: Final = "application/json"
HOUSE: Final = House("cockpit", "cockpit's record", DatabaseUnavailable, "sandboxd cockpit")

# The first class that fits counts: status, code, what to do about it.
_TABLE: Final[tuple[tuple[type[Refusal], int, str, str], ...]] = (
    (errors.Unauthenticated, 401, "unauthenticated", "sign in, or send a person's token"),
    (errors.Forbidden, 403, "forbidden", "ask whoever runs this cockpit; its config says who may do what"),
    (errors.MethodNotFound, 404, "not-found", "look at the list for what there is"),
    (errors.TaskNotFound, 404, "not-found", "look at the list for what there is"),
    (errors.PromptNotOpen, 409, "conflict", "look at the question as it stands now"),
    (errors.AnswerInvalid, 422, "invalid-answer", "mend the answer and send it again; the question is still open"),
    (errors.ContentTypeNotSupported, 415, "media-type", "send application/json"),
    (errors.TooLarge, 413, "too-large", "send less"),
    (errors.RateLimited, 429, "rate", "wait a moment"),
    (errors.DeliveryFailed, 502, "host", "the cockpit goes on trying; nothing has to be sent again"),
    (errors.TooBusy, 503, "busy", "try again in a moment"),
    (errors.NotReady, 503, "not-ready", "try again in a moment"),
    (errors.Internal, 500, "internal", "the cockpit's log has more"),
    (Refusal, 400, "bad-request", "mend the request"),
)


def answer(value: Any, *, status: int = 200) -> quart.Response:
    """A JSON answer, which nobody keeps."""
    made = quart.Response(dump_json(value), status, content_type=JSON)
    made.headers["Cache-Control"] = "no-store"
    return made


def refusal_answer(error: Exception) -> quart.Response:
    """What whoever asked is told of an error; what is ours goes to the log."""
    refusal, status = as_refusal(error)
    usual, body = refusal_json(refusal)
    made = answer(body, status=status or usual)
    made.headers.update(headers_of(refusal, HOUSE))
    allowed: Any = getattr(error, "valid_methods", None)  # 405: RFC 9110 §15.5.6 wants them named
    if allowed:
        made.headers["Allow"] = ", ".join(sorted(allowed))
    return made


def refusal_json(refusal: Refusal) -> tuple[int, Mapping[str, Any]]:
    """The status and the body of a refusal."""
    status, code, do = next((status, code, do) for cls, status, code, do in _TABLE if isinstance(refusal, cls))
    what, _, why = refusal.message.partition(": ")
    error: dict[str, Any] = {"what": what, "why": why, "do": do, "code": code, **refusal.facts}
    if refusal.problems:
        error["validation_errors"] = [
            {"path": problem.field, "keyword": problem.keyword, "message": problem.reason} for problem in refusal.problems
        ]
    return status, {"error": error}


def as_refusal(error: Exception) -> tuple[Refusal, int | None]:
    """What whoever asked is told of an error, and HTTP's finer status where there is one; what is ours goes to the log."""
    return refusal_of(error, HOUSE)
