"""What of a task's output did a host send, and how much is there? (sandboxd's own door for the bytes of an artifact)"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import attrs

from sandboxd.cockpit.reading import Refused
from sandboxd.values import frozen


@frozen
class Output:
    """A piece of what a task has printed, `start` bytes into what is kept of it; `size` bytes are kept by now.

    `cut`: how many were dropped behind the first `head`.
    """

    start: int
    data: bytes = attrs.field(repr=False)
    size: int
    cut: int = 0
    head: int = 0


def read_output(status: int, headers: Mapping[str, str], start: int, data: bytes) -> Output | None:
    """The answer to a request for a range from `start` on; None: the host has no such door, or no such artifact. `Refused`."""
    if status == HTTPStatus.NOT_FOUND:
        return None
    size = headers.get("content-range", "").rpartition("/")[2]
    has_more = status == HTTPStatus.PARTIAL_CONTENT  # else there are no more bytes yet
    if not size.isdigit() or not (has_more or status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
        raise Refused(status, None, None)
    cut, head = (headers.get(name, "") for name in ("sandboxd-cut", "sandboxd-head"))
    is_cut = cut.isdigit() and head.isdigit()
    return Output(start, data if has_more else b"", int(size), int(cut) if is_cut else 0, int(head) if is_cut else 0)
