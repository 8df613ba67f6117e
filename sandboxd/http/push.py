"""How does an operator learn which notifications never got through, and have one sent again?

`GET /push/dead?limit=N`: the last N that were given up, newest first. `POST /push/dead/{number}/retry`: one more try, now; the
answer says what came of it. Both are for admins of the whole host.
"""

from __future__ import annotations

from typing import Any, Final

import quart

from sandboxd.a2a.wire import rfc3339
from sandboxd.errors import InvalidParams, Problem
from sandboxd.http.answers import answer
from sandboxd.http.doors import Doors
from sandboxd.http.head import HEAD
from sandboxd.operations.host import Caller
from sandboxd.operations.push import read_dead, retry_dead
from sandboxd.store.base import DeadPush

LIMIT: Final = 100
LIMIT_MAX: Final = 1000


async def show_dead(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /push/dead`."""
    text = HEAD.get().arguments.get("limit", str(LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= LIMIT_MAX):
        raise InvalidParams("cannot list dead letters", problems=[Problem("limit", f"must be a number from 1 to {LIMIT_MAX}")])
    dead = await read_dead(doors.host, caller, limit=int(text))
    made = answer({"dead": [dead_json(one) for one in dead]})
    made.headers["Cache-Control"] = "no-store"
    return made


async def retry(doors: Doors, caller: Caller, instance: str, number: str) -> quart.Response:
    """`POST /push/dead/{number}/retry`."""
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise InvalidParams("cannot send the dead letter again", problems=[Problem("number", "must be a number")])
    why = await retry_dead(doors.host, caller, int(number))
    return answer({"number": int(number), "delivered": not why} | ({"why": why} if why else {}))


def dead_json(dead: DeadPush) -> dict[str, Any]:
    """A dead letter as JSON."""
    return {
        "number": dead.number,
        "at": rfc3339(dead.at),
        "task_id": dead.task_id,
        "event": dead.seq,
        "config_id": dead.config_id,
        "principal": dead.principal,
        "url": dead.url,
        "tries": dead.tries,
        "why": dead.why,
    }
