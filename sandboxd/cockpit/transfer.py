"""How do bytes go to a host and come back, with a bound, and with nothing left open by a cancel?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx
import trio

from sandboxd.a2a.jsontext import parse_json
from sandboxd.cockpit.reading import Unreachable, Unreadable
from sandboxd.cockpit.sse import TooLong
from sandboxd.errors import InvalidJson

BODY_MAX_BYTES: Final = 32 * 1024 * 1024  # a task comes with its artifacts


class Whole(httpx.AsyncByteStream):
    """A request's body in one piece; httpx's own is a generator, which a cancel would leave in the middle."""

    def __init__(self, data: bytes) -> None:
        self._left = [data]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


@contextmanager
def reaching() -> Iterator[None]:
    """What goes wrong on the way becomes `Unreachable` or `Unreadable`."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Unreachable(f"the host cannot be reached ({type(error).__name__})", never_left=True) from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise Unreachable(f"the host cannot be reached ({type(error).__name__})") from error
    except TooLong as error:
        raise Unreadable("an event is too large") from error


async def body_of(response: httpx.Response) -> Any:
    """The JSON of an answer; None for a refusal that has none. `Unreadable`."""
    data = await bytes_of(response)
    try:
        return json_of(data)
    except Unreadable:
        if response.status_code >= httpx.codes.BAD_REQUEST:
            return None  # the status says enough
        raise


async def bytes_of(response: httpx.Response) -> bytes:
    """All of an answer; `Unreadable` when it has more than `BODY_MAX_BYTES`."""
    data = bytearray()

    def take(piece: bytes) -> bool:
        data.extend(piece)
        return len(data) <= BODY_MAX_BYTES

    await drain(response, take)
    if len(data) > BODY_MAX_BYTES:
        raise Unreadable(f"the answer has more than {BODY_MAX_BYTES} bytes")
    return bytes(data)


async def drain(response: httpx.Response, take: Callable[[bytes], bool]) -> None:
    """Give each piece of the body to `take` until it has enough; what `take` raises is raised.

    httpx reads through generators within generators. Left in the middle they are closed by nobody, so the loop is never left:
    it is cancelled, which ends all of them from within.
    """
    failure: Exception | None = None
    with trio.CancelScope() as scope:
        async for piece in response.aiter_bytes():
            try:
                if failure is None and take(piece):
                    continue
            except Exception as error:
                failure = error
            scope.cancel()
    if failure is not None:
        raise failure


def json_of(data: bytes) -> Any:
    """The JSON in those bytes; `Unreadable`."""
    try:
        return parse_json(data)
    except (InvalidJson, json.JSONDecodeError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
