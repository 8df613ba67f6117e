"""What does every route work with?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs
import quart
import trio

from sandboxd.a2a.jsontext import parse_json
from sandboxd.a2a.model import StreamItem
from sandboxd.errors import ContentTypeNotSupported, InvalidJson, Refusal
from sandboxd.http import sse
from sandboxd.http.answers import A2A_JSON, JSON
from sandboxd.http.auth import Gate
from sandboxd.http.cards import Cards
from sandboxd.http.manners import Speech, speech_of
from sandboxd.http.presence import Presence
from sandboxd.operations.host import Host
from sandboxd.operations.stream import Stream
from sandboxd.serving.pace import Pace
from sandboxd.serving.settings import DoorSettings

Check = Callable[[], Awaitable[None]]
_READ: Final = (JSON, A2A_JSON)


@attrs.frozen
class Doors:
    """Put together once by the daemon.

    `closing` ends every stream: set it once the runs have ended and their last events are out. `checks` are what `/readyz`
    asks, by name: a check that raises is a host that is not ready. `presence` has to `watch`, or nobody is looked at again.
    """

    host: Host
    gate: Gate
    settings: DoorSettings
    version: str
    checks: Mapping[str, Check] = attrs.field(factory=dict)
    pace: Pace = attrs.field(factory=lambda: Pace(0, 0))
    cards: Cards = attrs.field(factory=Cards)
    closing: trio.Event = attrs.field(factory=trio.Event)
    presence: Presence = attrs.field(default=attrs.Factory(lambda self: Presence(self.gate), takes_self=True))
    started: datetime = attrs.field(factory=lambda: datetime.now(UTC))

    def follow(
        self, stream: Stream, *, encode: Callable[[StreamItem], Any], encode_refusal: Callable[[Refusal], Any]
    ) -> quart.Response:
        """The answer that streams a task's news."""
        return sse.event_stream(
            stream, encode=encode, encode_refusal=encode_refusal, closing=self.closing, ping_s=self.settings.ping_s
        )


async def read_json(request: quart.Request, *, media_types: Sequence[str] = _READ) -> Any:
    """The JSON in the body; `ContentTypeNotSupported` before a byte of it is read, `InvalidJson`."""
    _check_media_type(request, media_types)
    return parse_json(await _read(request))


async def read_optional_object(request: quart.Request) -> Mapping[str, Any]:
    """The JSON object in the body; without a body {}, whatever its Content-Type says (SDK clients send none)."""
    has_type = bool(request.headers.get("Content-Type", "").strip())
    if has_type:
        _check_media_type(request, _READ)
    body = await _read(request)
    if not body.strip():
        return {}
    if not has_type:
        _check_media_type(request, _READ)
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidJson("cannot read the body: it must be an object")
    return value


def current_speech() -> Speech:
    """How the current request speaks."""
    request = quart.request
    return speech_of(request.path, request.headers, list(request.args.items(multi=True)))


async def _read(request: quart.Request) -> bytes:
    body = await request.get_data(cache=True, as_text=False, parse_form_data=False)
    assert isinstance(body, bytes)
    return body


def _check_media_type(request: quart.Request, media_types: Sequence[str]) -> None:
    """What says two things about a body, or says that it is packed, is not read as if it had not (RFC 9110 §8.3, §8.4)."""
    if len(request.headers.getlist("Content-Type")) > 1:
        raise ContentTypeNotSupported("cannot read the body: it has more than one Content-Type")
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise ContentTypeNotSupported(f"cannot read the body: the content coding `{coding[:64]}` is not taken here")
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type not in media_types:
        said = f"`{media_type[:64]}` is not" if media_type else "without a Content-Type it is not"
        raise ContentTypeNotSupported(f"cannot read the body: {said} taken here, `{media_types[0]}` is")
