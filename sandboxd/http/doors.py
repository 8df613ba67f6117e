"""What does every route work with?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs
import quart
import trio

from sandboxd.a2a.model import StreamItem
from sandboxd.errors import Refusal
from sandboxd.http import sse
from sandboxd.http.answers import A2A_JSON, JSON
from sandboxd.http.auth import Gate
from sandboxd.http.cards import Cards
from sandboxd.http.head import HEAD
from sandboxd.http.manners import Speech
from sandboxd.http.presence import Presence
from sandboxd.operations.host import Host
from sandboxd.operations.stream import Stream
from sandboxd.serving import body
from sandboxd.serving.exchange import CURRENT
from sandboxd.serving.pace import Pace
from sandboxd.serving.settings import DoorSettings
from sandboxd.values import frozen

Check = Callable[[], Awaitable[None]]
_READ: Final = (JSON, A2A_JSON)


@frozen
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


async def read_json(*, media_types: Sequence[str] = _READ) -> Any:
    """The JSON in the body, as `body.read_json`."""
    return await body.read_json(CURRENT.get().body, HEAD.get(), media_types)


async def read_optional_object() -> Mapping[str, Any]:
    """The JSON object in the body, as `body.read_optional_object`."""
    return await body.read_optional_object(CURRENT.get().body, HEAD.get(), _READ)


def current_speech() -> Speech:
    """How the current request speaks."""
    return HEAD.get().speech
