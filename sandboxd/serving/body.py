"""How is the JSON in a request's body read?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import quart

from sandboxd.a2a.jsontext import parse_json
from sandboxd.errors import ContentTypeNotSupported, InvalidJson

Read = Callable[[], Awaitable[bytes]]  # all of the body, the same each time


def body_of(request: quart.Request) -> Read:
    """The body as Quart has it."""

    async def read() -> bytes:
        return await request.get_data(cache=True, as_text=False, parse_form_data=False)

    return read


class Headers(Protocol):
    """The request's headers, as far as they are needed here."""

    def get(self, key: str, /) -> str | None:
        """The first value of a header."""

    def getlist(self, key: str, /) -> Sequence[str]:
        """Every value of a header."""


async def read_json(read: Read, headers: Headers, media_types: Sequence[str]) -> Any:
    """The JSON in the body; `ContentTypeNotSupported` before a byte of it is read, `InvalidJson`."""
    _check_media_type(headers, media_types)
    return parse_json(await read())


async def read_optional_object(read: Read, headers: Headers, media_types: Sequence[str]) -> Mapping[str, Any]:
    """The JSON object in the body; without a body {}, whatever its Content-Type says (SDK clients send none)."""
    has_type = bool((headers.get("Content-Type") or "").strip())
    if has_type:
        _check_media_type(headers, media_types)
    body = await read()
    if not body.strip():
        return {}
    if not has_type:
        _check_media_type(headers, media_types)
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidJson("cannot read the body: it must be an object")
    return value


def _check_media_type(headers: Headers, media_types: Sequence[str]) -> None:
    """What says two things about a body, or says that it is packed, is not read as if it had not (RFC 9110 §8.3, §8.4)."""
    types = headers.getlist("Content-Type")
    if len(types) > 1:
        raise ContentTypeNotSupported("cannot read the body: it has more than one Content-Type")
    coding = (headers.get("Content-Encoding") or "").strip().lower()
    if coding not in ("", "identity"):
        raise ContentTypeNotSupported(f"cannot read the body: the content coding `{coding[:64]}` is not taken here")
    media_type = "".join(types).partition(";")[0].strip().lower()
    if media_type not in media_types:
        said = f"`{media_type[:64]}` is not" if media_type else "without a Content-Type it is not"
        raise ContentTypeNotSupported(f"cannot read the body: {said} taken here, `{media_types[0]}` is")
