"""How does a client get the exact bytes that a program printed?

`GET` and `HEAD` of one artifact as it stands: octet-stream, one byte range (RFC 9110 §14), validators. A cut is told in
headers: `Sandboxd-Cut` is how many bytes were dropped, `Sandboxd-Head` how many of the kept ones came before them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import quart

from sandboxd.errors import RangeNotSatisfiable
from sandboxd.http.doors import Doors
from sandboxd.http.head import HEAD
from sandboxd.operations.artifacts import ArtifactFile, open_artifact
from sandboxd.operations.host import Caller
from sandboxd.values import frozen

PIECE_BYTES: Final = 256 * 1024
_RANGE: Final = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})")


@frozen
class Span:
    """The bytes `[start, stop)`."""

    start: int
    stop: int


async def artifact(doors: Doors, caller: Caller, instance: str, ref: str, artifact_id: str) -> quart.Response:
    """`GET /tasks/{id}/artifacts/{aid}`."""
    file = await open_artifact(doors.host, caller, instance, ref, artifact_id)
    etag = f'"{file.size:x}-{file.cut:x}-{int(file.is_complete)}"'  # bytes are only ever appended
    head, span = HEAD.get(), None
    if head.get("If-Range") in (None, etag):
        span = parse_range(head.get("Range"), file.size)
    whole = Span(0, file.size)
    sent = span or whole
    if head.get("If-None-Match") == etag:
        made = quart.Response(b"", 304)
    elif head.method == "HEAD":
        made = quart.Response(b"", 206 if span else 200)
    else:
        made = quart.Response(_pieces(file, sent), 206 if span else 200)
    made.timeout = None
    made.headers["Content-Type"] = "application/octet-stream"
    if made.status_code != 304:
        made.headers["Content-Length"] = str(sent.stop - sent.start)
    if span:
        made.headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{file.size}"
    made.headers["Accept-Ranges"] = "bytes"
    made.headers["ETag"] = etag
    made.headers["Cache-Control"] = "private, no-cache"
    made.headers["X-Content-Type-Options"] = "nosniff"  # what a program printed is never a page
    made.headers["Content-Disposition"] = "attachment"
    made.headers["Sandboxd-Complete"] = "true" if file.is_complete else "false"
    if file.cut:
        made.headers["Sandboxd-Cut"] = str(file.cut)
        made.headers["Sandboxd-Head"] = str(file.head)
    return made


def parse_range(header: str | None, size: int) -> Span | None:
    """The one range that is asked for; None for no range, several, or another unit: then everything is sent.

    `RangeNotSatisfiable` when it lies outside.
    """
    found = _RANGE.fullmatch(header.replace(" ", "")) if header else None
    if found is None or found["first"] == found["last"] == "":
        return None
    if found["first"] == "":
        wanted = int(found["last"])
        span = Span(max(0, size - wanted), size)
    else:
        start = int(found["first"])
        stop = min(int(found["last"]) + 1, size) if found["last"] else size
        if found["last"] and int(found["last"]) < start:
            return None  # RFC 9110 §14.1.1: invalid, so ignored
        span = Span(start, stop)
    if span.start >= span.stop:
        raise RangeNotSatisfiable(f"cannot send that range: there are {size} bytes", facts={"size": size})
    return span


async def _pieces(file: ArtifactFile, span: Span) -> AsyncIterator[bytes]:
    at = span.start
    while at < span.stop:
        piece = await file.read(at, min(at + PIECE_BYTES, span.stop))
        if not piece:
            raise EOFError(f"artifact `{file.artifact_id}` ends at {at}, not at {span.stop}")  # the answer breaks off
        yield piece
        at += len(piece)
