"""Which events stand in a stream, and how is one that breaks gone on with?

Server-sent events (WHATWG HTML 9.2). A reader that goes on behind the last event it had misses nothing and sees nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import httpx

from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.reaching import Target, unreachable
from sandboxd.values import frozen

T = TypeVar("T")

RESUMES: Final = 5  # broken streams in a row, without an event between them, before it is given up


@frozen
class ServerSentEvent:
    """One event of a stream."""

    kind: str
    data: str
    number: int | None


def resumed(open_stream: Callable[[], Iterator[T]], *, what: str, target: Target) -> Iterator[T]:
    """Every event, for ever, over as many connections as it takes; `Failure` once it is hopeless.

    `open_stream` is called anew after each break, and goes on behind what was read. What cannot be had even once is told at
    once.
    """
    broken, is_first = 0, True
    while True:
        try:
            for item in open_stream():
                broken, is_first = 0, False
                yield item
        except httpx.TransportError as error:
            if is_first or broken == RESUMES:
                raise unreachable(what, target, error) from error
        broken += 1
        if broken > RESUMES:
            raise Failure(f"cannot {what}: the stream ended {RESUMES} times without news", Exit.UNREACHABLE)
        time.sleep(0.1 * 2**broken)


def server_sent_events(pieces: Iterator[bytes]) -> Iterator[ServerSentEvent]:
    """The events in a stream of bytes.

    Lines end at CR, LF or CR LF and nowhere else: `str.splitlines` would also cut at U+2028 in the middle of JSON text.
    """
    kind, data, number = "", list[str](), None
    for line in _lines(pieces):
        if not line:
            if data:
                yield ServerSentEvent(kind, "\n".join(data), number)
            kind, data, number = "", [], None
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                kind = value
            case "data":
                data.append(value)
            case "id" if value.isascii() and value.isdigit():
                number = int(value)


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    held = b""
    for piece in pieces:
        held += piece
        *whole, held = held.split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
