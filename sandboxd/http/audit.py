"""How does an operator read the audit record?

`GET /audit?limit=N`: the last N records. `GET /audit?after=N`: those after number N, in order; `next` is where to go on, and
`begins` the entry behind which the chain (`sandboxd.chain`) stands. Ids that a record has none of are left out. It is of the
whole host, so it is for admins of all of it.
"""

from __future__ import annotations

from typing import Any, Final

import quart

from sandboxd.errors import InvalidParams, Problem
from sandboxd.http.answers import answer
from sandboxd.http.doors import Doors
from sandboxd.http.head import HEAD
from sandboxd.operations.audit import read_audit, read_audit_end
from sandboxd.operations.host import Caller

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
_NUMBER_MAX: Final = 2**53


async def show(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /audit`."""
    limit = _number("limit", LIMIT, 1, LIMIT_MAX)
    assert limit is not None
    after = _number("after", None, 0, _NUMBER_MAX)
    body: dict[str, Any] = {}
    if after is None:
        records = await read_audit_end(doors.host, caller, limit=limit)
    else:
        page = await read_audit(doors.host, caller, after=after, limit=limit)
        records, begins = page.records, page.begins
        body["begins"] = {"number": begins.spot.number, "hash": begins.spot.hash, "older_to": begins.older_to}
    body["records"] = [record.as_json() for record in records]
    if records:
        body["next"] = records[-1].number
    made = answer(body)
    made.headers["Cache-Control"] = "no-store"
    return made


def _number(name: str, default: int | None, least: int, most: int) -> int | None:
    text = HEAD.get().arguments.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise InvalidParams("cannot show the audit record", problems=[Problem(name, f"must be a number from {least} to {most}")])
