"""How does a body get to a host and back, with a bound, and without anything of httpx's left in the middle?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx
import trio

from sandboxd.a2a.jsontext import parse_json
from sandboxd.cockpit.apart import read_apart
from sandboxd.cockpit.reading import Unreachable, Unreadable
from sandboxd.cockpit.sse import TooLong
from sandboxd.errors import InvalidJson

BODY_MAX_BYTES: Final = 32 * 1024 * 1024  # a task comes with its artifacts
LIST_MAX_BYTES: Final = 8 * 1024 * 1024  # one page of a list, in which tasks come without them
_LARGE_BYTES: Final = 256 * 1024  # to read so much takes some milliseconds


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
    """Turn what goes wrong on the way into `Unreachable`, or `Unreadable`."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Unreachable(f"the host cannot be reached ({type(error).__name__})", never_left=True) from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise Unreachable(f"the host cannot be reached ({type(error).__name__})") from error
    except TooLong as error:
        raise Unreadable("an event is too large") from error


async def read_body(response: httpx.Response) -> Any:
    """The body as JSON; None where a refusal has none. `Unreadable`."""
    data = await read_bytes(response)
    try:
        return await _beside(json_of, data)
    except Unreadable:
        if response.status_code >= httpx.codes.MULTIPLE_CHOICES:
            return None  # the status says enough; a redirect is followed by nobody
        raise


async def read_page(response: httpx.Response) -> Any:
    """The same of a page of a list: a task in it that is no good JSON is a `Fault`."""
    data = await read_bytes(response, most=LIST_MAX_BYTES)
    try:
        return await _beside(json_of, data)
    except Unreadable:
        if response.status_code >= httpx.codes.MULTIPLE_CHOICES:
            return None
    try:
        return await _beside(read_apart, data)
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error


async def read_bytes(response: httpx.Response, *, most: int = BODY_MAX_BYTES) -> bytes:
    """The body; `Unreadable` when it has more than that."""
    data = bytearray()

    def take(piece: bytes) -> bool:
        data.extend(piece)
        return len(data) <= most

    await drain(response, take)
    if len(data) > most:
        raise Unreadable(f"the answer has more than {most} bytes")
    return bytes(data)


async def _beside(parse: Callable[[bytes], Any], data: bytes) -> Any:
    """Read much of it in a thread, where everything else goes on meanwhile."""
    return parse(data) if len(data) <= _LARGE_BYTES else await trio.to_thread.run_sync(parse, data)


async def drain(response: httpx.Response, take: Callable[[bytes], bool]) -> None:
    """Give each piece of the body to `take` until it has enough; what `take` raises is raised. `Unreadable`.

    A compressed body was not asked for, and is not unpacked: a few bytes of one can become any number.

    httpx reads through generators within generators. Left in the middle they are closed by nobody, so the loop is never left:
    it is cancelled, which ends all of them from within.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Unreadable("the answer is compressed, which was not asked for")
    failure: Exception | None = None
    with trio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            try:
                if failure is None and take(piece):
                    continue
            except Exception as error:
                failure = error
            scope.cancel()
    if failure is not None:
        raise failure


def json_of(data: bytes) -> Any:
    """The JSON in it; `Unreadable`."""
    try:
        return parse_json(data)
    except (InvalidJson, json.JSONDecodeError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
