"""How do clients get the agent card, the keys that it is signed with, and the schemas that it speaks of?

All of it is public but the extended card. Clients keep it, so it has validators (A2A 1.0 §8.6).
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import quart
from werkzeug.http import http_date

from sandboxd.a2a import card
from sandboxd.errors import MethodNotFound
from sandboxd.http.answers import answer
from sandboxd.http.cards import Asked
from sandboxd.http.doors import Doors
from sandboxd.http.head import HEAD
from sandboxd.operations.host import Caller
from sandboxd.serving.exchange import CURRENT
from sandboxd.serving.one_task import request_of
from sandboxd.serving.peer import PEER

MAX_AGE_S: Final = 300
SCHEMAS: Final = ("hitl-prompt-v1/envelope.schema.json", "hitl-prompt-v1/response.schema.json")
_SHARE: Final = Path(__file__).parent.parent / "share" / "schemas"


async def agent_card(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /.well-known/agent-card.json` (§8.2, §8.6)."""
    spelled = doors.cards.public(doors.host, instance, doors.version, Asked(PEER.get(), HEAD.get().host or ""))
    return await _kept(doors, spelled)


async def old_agent_card(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /.well-known/agent.json`, where clients before 0.3 look; there only while cards can be read by such."""
    if not doors.cards.is_merged:
        raise MethodNotFound("cannot find the path")
    return await agent_card(doors, caller, instance)


async def jwks(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /.well-known/jwks.json`: all instances' cards are signed with the same keys."""
    doors.host.instance(instance)
    if doors.cards.keys is None:
        raise MethodNotFound("cannot find the path: cards are not signed here")
    return await _kept(doors, doors.cards.keys.jwks())


async def schema(doors: Doors, caller: Caller, instance: str, name: str) -> quart.Response:
    """`GET /schemas/{name}`: the JSON Schemas of what travels."""
    if name not in SCHEMAS:
        raise MethodNotFound(f"cannot find a schema `{name[:64]}`: there are {', '.join(SCHEMAS)}")
    made = quart.Response(_text(name), content_type="application/schema+json")
    return await _with_validators(made, doors.started, f'"{card.digest(_text(name))}"')


async def _kept(doors: Doors, value: dict[str, Any]) -> quart.Response:
    changed_at = max(doors.started, doors.cards.keys.changed_at) if doors.cards.keys else doors.started
    made = answer(value)
    made.headers["Vary"] = "Host"
    return await _with_validators(made, changed_at, card.etag(value))


async def _with_validators(made: quart.Response, changed_at: datetime, etag: str) -> quart.Response:
    made.headers["Cache-Control"] = f"public, max-age={MAX_AGE_S}"
    made.headers["Last-Modified"] = http_date(changed_at)
    made.headers["ETag"] = etag
    conditional = await made.make_conditional(request_of(CURRENT.get().scope))
    assert isinstance(conditional, quart.Response)
    return conditional


@cache
def _text(name: str) -> bytes:
    return (_SHARE / name).read_bytes()
