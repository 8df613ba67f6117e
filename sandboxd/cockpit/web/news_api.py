"""How does somebody who looks hear of every change, at once? (`GET /api/news`)

One event for each entry of the audit, which has everything that people see, `id:` its number: a reader that lost its connection
goes on behind the last one that it had. A question comes as it stands now, so the newest word about it always holds.
"""

from __future__ import annotations

import json
from functools import partial

import quart

from sandboxd.cockpit import listing
from sandboxd.cockpit.web.desk import NEWS_PAGE, Desk
from sandboxd.cockpit.web.gate import Guest
from sandboxd.cockpit.web.shown import question_json
from sandboxd.errors import InvalidParams
from sandboxd.serving.streaming import Tell, event, stream_answer


async def news(desk: Desk, guest: Guest) -> quart.Response:
    """The stream; it begins behind `Last-Event-ID`, or `?after=`, else with what happens from now on."""
    records = desk.controller.records
    after = _after()
    number = after if after is not None else await records.read(listing.last_number)

    async def tell_all(tell: Tell) -> None:
        at = number
        await tell(event({"now": desk.now(), "number": at}, name="hello"))
        while True:
            since = records.changes
            while page := await records.read(partial(listing.entries_after, number=at, limit=NEWS_PAGE)):
                for kept, record in page:
                    at = kept.number
                    shown = None if record is None else question_json(record, guest.principal)
                    told = {"number": at, "now": desk.now(), "entry": json.loads(kept.body), "prompt": shown}
                    await tell(event(told, number=at, name="change"))
            await records.wait_changed(since)

    return stream_answer(tell_all, closing=desk.closing, ping_s=desk.settings.ping_s, is_still_in=guest.is_still_in)


def _after() -> int | None:
    for text in (quart.request.headers.get("Last-Event-ID"), quart.request.args.get("after")):
        if text and text.strip():
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                raise InvalidParams("cannot go on with the news: `Last-Event-ID` must be the number of an event")
            return int(text)
    return None
