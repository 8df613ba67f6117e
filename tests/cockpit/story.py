"""What tests of the cockpit's record ask, and how they make it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sandboxd.a2a.canonical import sha256_hex
from sandboxd.a2a.links import Links
from sandboxd.approvals.events import Received, Voted
from sandboxd.approvals.record import Payload, Question, Terms, payload
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.record import Heard, Place
from sandboxd.cockpit.records import Records

PLACE = Place("lab", "task-1", "context-1")
ALICE, BOB = (Principal(f"token:{name}", name, may_answer=True) for name in ("alice", "bob"))


def prompt_id(number: int = 1) -> str:
    return f"0b5c0f3e-8d4f-4a4b-9f0f-{number:012d}"


def envelope(number: int = 1, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"prompt_id": prompt_id(number), "prompt": "Proceed?", "response_schema": schema, **more}


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


async def ask(records: Records, number: int = 1, *, seed: str = "seed", **terms: Any) -> Heard:
    asked = envelope(number)
    event = Received(Question(asked["prompt_id"], sha256_hex(asked), ("any",)), Terms(**terms), seed)
    heard = await records.receive(PLACE, asked, event, Links(sandbox="lab", trace="trace-1"), most=20)
    assert isinstance(heard, Heard)
    return heard


async def vote(records: Records, heard: Heard, who: Principal = ALICE, text: str = "y", said: Payload | None = None) -> Heard:
    return await records.hear(heard.record, Voted(who, "cli", said or payload({"text": text})))
