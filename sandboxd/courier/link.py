"""How does the daemon ask its courier, whichever one it has at the moment?

A question that a courier took with it when it died is answered "failed", and so counts as a try; questions wait while there is
none. A courier that does not answer in time is hung up on.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from sandboxd.courier.frames import CONNECT_S, TOTAL_S, Frames

_GRACE_S: Final = 10.0  # of a busy machine


@attrs.define(eq=False)
class _Asked:
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: dict[str, Any] | None = None


class Link:
    """The daemon's end. `wanted` is set once there is something to ask."""

    def __init__(self, allow: tuple[str, ...] = ()) -> None:
        self.wanted = trio.Event()
        self._allow = allow
        self._frames: Frames | None = None
        self._is_up = trio.Event()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Asked] = {}

    def __repr__(self) -> str:
        return f"<Link {'up' if self._frames else 'down'} waiting={len(self._waiting)}>"

    async def serve(self, stream: trio.SocketStream) -> None:
        """Talk to a courier until it is gone; it is hung up on then."""
        frames = Frames(stream)
        try:
            await frames.send({"allow": list(self._allow)})
            self._frames = frames
            self._is_up.set()
            while (said := await frames.receive()) is not None:
                if asked := self._waiting.pop(said["n"], None):
                    asked.answer = said
                    asked.answered.set()
        except trio.BrokenResourceError:
            return
        finally:
            self._frames = None
            self._is_up = trio.Event()
            lost, self._waiting = self._waiting, {}
            for asked in lost.values():
                asked.answered.set()
            with trio.CancelScope(shield=True):
                await frames.aclose()

    async def post(self, url: str, headers: list[tuple[str, str]], body: str) -> Mapping[str, Any]:
        """Have it sent once, as soon as there is a courier: `status`, `failed` or `refused`."""
        self.wanted.set()
        await self._is_up.wait()
        said = await self._ask({"post": {"url": url, "headers": headers, "body": body}}, TOTAL_S)
        return said if said is not None else {"failed": "the courier died"}

    async def look(self, url: str) -> str | None:
        """Why nothing may go there; None also when there is no courier to look."""
        self.wanted.set()
        with trio.move_on_after(CONNECT_S):
            await self._is_up.wait()
            said = await self._ask({"look": url}, CONNECT_S)
            return said.get("refused") or None if said else None
        return None

    async def _ask(self, question: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        frames = self._frames
        if frames is None:
            return None
        number = next(self._numbers)
        asked = self._waiting[number] = _Asked()
        try:
            with trio.move_on_after(limit_s + _GRACE_S):
                await frames.send({"n": number, **question})
                await asked.answered.wait()
                return asked.answer
            await frames.aclose()  # it hangs: let whoever keeps it end it
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return None
        finally:
            self._waiting.pop(number, None)
        return None
