"""How does an operator read the audit record?

`GET /audit?limit=N`: the last N records. `GET /audit?after=N`: those after number N, in order; `next` is where to go on. It is
of the whole host, so it is for admins of all of it.
"""

from __future__ import annotations

from typing import Any, Final

import quart

from sandboxd.a2a.wire import rfc3339
from sandboxd.errors import InvalidParams, Problem
from sandboxd.http.answers import answer
from sandboxd.http.doors import Doors
from sandboxd.operations.audit import read_audit
from sandboxd.operations.host import Caller
from sandboxd.store.base import AuditRecord

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
_NUMBER_MAX: Final = 2**53


async def show(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /audit`."""
    limit = _number("limit", LIMIT, 1, LIMIT_MAX)
    assert limit is not None
    after = _number("after", None, 0, _NUMBER_MAX)
    records = await read_audit(doors.host, caller, after=after, limit=limit)
    body: dict[str, Any] = {"records": [record_json(record) for record in records]}
    if records:
        body["next"] = records[-1].number
    made = answer(body)
    made.headers["Cache-Control"] = "no-store"
    return made


def record_json(record: AuditRecord) -> dict[str, Any]:
    """The record as JSON, ids that it has none of left out."""
    entry = record.entry
    spelled = {
        "number": record.number,
        "at": rfc3339(entry.at),
        "principal": entry.principal,
        "door": entry.door,
        "action": entry.action,
        "instance": entry.instance,
        "outcome": entry.outcome,
        "task_id": entry.task_id,
        "prompt_id": entry.prompt_id,
        "message_id": entry.message_id,
        "config_id": entry.config_id,
        "target": entry.target,
    }
    return {name: value for name, value in spelled.items() if value is not None}


def _number(name: str, default: int | None, least: int, most: int) -> int | None:
    text = quart.request.args.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise InvalidParams("cannot show the audit record", problems=[Problem(name, f"must be a number from {least} to {most}")])
