"""What does every route of the cockpit work with?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

import attrs
import quart
import trio

from sandboxd.a2a.wire import rfc3339
from sandboxd.cockpit import listing
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.record import Record
from sandboxd.cockpit.web.answers import JSON
from sandboxd.cockpit.web.gate import Gate
from sandboxd.errors import Forbidden, InvalidJson, InvalidParams, Problem, TaskNotFound
from sandboxd.serving.body import body_of, read_json
from sandboxd.serving.pace import Pace
from sandboxd.serving.settings import DoorSettings
from sandboxd.values import frozen

NEWS_PAGE: Final = 100
Kind = Literal["a text", "an object", "a list", "a whole number"]
_CLASSES: Final = {"a text": str, "an object": dict, "a list": list, "a whole number": int}
VIEWERS_MAX: Final = 64  # streams of terminals: each asks its host a few times a second


@frozen
class Desk:
    """Put together once; `closing` ends every stream. `sessions` and `people` are the gate's."""

    controller: Controller
    gate: Gate
    settings: DoorSettings
    version: str
    pace: Pace = attrs.field(factory=lambda: Pace(50, 100))
    closing: trio.Event = attrs.field(factory=trio.Event)
    viewers: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(VIEWERS_MAX))

    def now(self) -> str:
        """The cockpit's clock, by which every countdown goes."""
        return rfc3339(self.clock())

    def clock(self) -> datetime:
        """The same, as a time."""
        return self.controller.clock()

    async def record(self, name: str) -> Record:
        """The question of that number or prompt id; `TaskNotFound`, `InvalidParams` where two hosts have that prompt id."""
        found = await self.controller.records.read(lambda connection: listing.find(connection, name))
        if not found:
            raise TaskNotFound("cannot find the question: none has that number or prompt id")
        if len(found) > 1:
            numbers = ", ".join(str(record.number) for record in found)
            raise InvalidParams(f"cannot tell which question is meant: several hosts ask under that id, as numbers {numbers}")
        return found[0]


async def read_object(*, known: Mapping[str, Kind]) -> dict[str, Any]:
    """The JSON object in the current request's body; `InvalidParams` names every key that is unknown or has another type."""
    value = await read_json(body_of(quart.request), quart.request.headers, (JSON,))
    if not isinstance(value, dict):
        raise InvalidJson("cannot read the body: it must be an object")
    problems = [Problem(str(key)[:64], "unknown key") for key in value if key not in known]
    wrong = [key for key, name in known.items() if key in value and not isinstance(value[key], _CLASSES[name])]
    problems += [Problem(key, f"must be {known[key]}") for key in wrong]
    if problems:
        raise InvalidParams("cannot read the body: " + "; ".join(map(str, problems)), problems=problems)
    return value


def check_may_act(may_answer: bool) -> None:
    """`Forbidden` for somebody who may look alone."""
    if not may_answer:
        raise Forbidden("cannot do this: this person may look, and change nothing (`may-answer` in the config)")
