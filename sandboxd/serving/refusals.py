"""Which refusal is an error that nobody has made one of yet, and which headers go with a refusal?

Errors are translated once, at the edge of whoever serves. What is ours goes to the log, and nothing of it to a client.
"""

from __future__ import annotations

from typing import Final

from werkzeug.exceptions import HTTPException

from sandboxd import errors
from sandboxd.errors import Refusal
from sandboxd.logs import logger
from sandboxd.values import frozen

BUSY_S: Final = 1  # after which it is worth asking again

_log = logger(__name__)


@frozen
class House:
    """Whose edge it is: its name, what it keeps (`unavailable`: that cannot be used), and what one signs in to (`realm`)."""

    name: str
    record: str
    unavailable: type[Exception]
    realm: str


def refusal_of(error: Exception, house: House) -> tuple[Refusal, int | None]:
    """What whoever asked is told of an error, and HTTP's finer status where there is one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:  # a nursery's wrapping
        error = error.exceptions[0]
    match error:
        case Refusal():
            return error, None
        case HTTPException(code=404):
            return errors.MethodNotFound("cannot find the path: there is none of that name"), 404
        case HTTPException(code=405):
            return errors.MethodNotFound("cannot use this method: the path does not take it"), 405
        case HTTPException(code=408):
            return errors.InvalidRequest("cannot read the body: it took too long"), 408
        case HTTPException(code=int(code)) if 400 <= code < 500:
            return errors.InvalidRequest("cannot read the request: it is ill-formed"), code
    if isinstance(error, house.unavailable):
        _log.error(f"Cannot use the {house.record}", error=str(error))
        return errors.NotReady(f"cannot serve the request: the {house.record} is not available"), None
    _log.exception("Cannot finish a request", exc_info=error)
    return errors.Internal(f"cannot finish the request: a fault of this {house.name}, its log has more"), None


def headers_of(refusal: Refusal, house: House) -> dict[str, str]:
    """What the answer's head says of it (RFC 9110 §10.2.3, §11.6.1)."""
    if isinstance(refusal, errors.Unauthenticated):
        return {"WWW-Authenticate": f'Bearer realm="{house.realm}"'}
    if isinstance(refusal, errors.TooBusy | errors.NotReady):
        return {"Retry-After": str(BUSY_S)}
    if isinstance(refusal, errors.RateLimited):
        return {"Retry-After": str(refusal.facts["retry_after_s"])}
    return {}
