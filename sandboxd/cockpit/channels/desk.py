"""How does each channel hear of everything that it is to be told, in order, over kills and long silences?

A channel is a cursor on the news, which moves in one transaction with the audit's word of what was told; so what a kill
interrupts is sent once more, under the same id. What fails is tried again, ever later; behind a piece that is given up the next
one is sent. A channel that hangs holds up nobody but itself, and none of them decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import trio

from sandboxd import logs
from sandboxd.cockpit.channels import rows
from sandboxd.cockpit.channels.config import Webhook
from sandboxd.cockpit.channels.notice import notice_of
from sandboxd.cockpit.channels.rows import Standing
from sandboxd.cockpit.channels.signing import Link, LinkKey
from sandboxd.cockpit.record import News, Record
from sandboxd.cockpit.records import Records
from sandboxd.courier.post import Poster, Sent
from sandboxd.targets import Targets

AT_ONCE: Final = 100
LOOK_S: Final = 30.0  # the wall clock is looked at this often at least
BACKOFF_S: Final = 2.0
BACKOFF_MAX_S: Final = 900.0
LINK_AFTER: Final = timedelta(days=1)  # how long a link shows what became of its question
_STALE_WHEN_CLOSED: Final = ("asked", "reminder", "escalation", "invalid")

_log = logs.logger(__name__)


LinkMaker = Callable[[Record, str], str | None]  # the link to a question for a channel; None: there is no page


def links_below(base_url: str | None, key: LinkKey) -> LinkMaker:
    """Links to the page at that URL."""

    def make(record: Record, channel: str) -> str | None:
        if base_url is None:
            return None
        name = channel.partition(":")[2]
        return f"{base_url}/q/{key.make(Link(record.number, name), record.approval.closes_at + LINK_AFTER)}"

    return make


class Desk:
    """All channels of one cockpit."""

    def __init__(
        self,
        records: Records,
        webhooks: Sequence[Webhook],
        links: LinkMaker,
        clock: Callable[[], datetime],
        *,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        self._records = records
        self._webhooks = webhooks
        self._links = links
        self._clock = clock
        self._backoff_s = backoff_s

    async def run(self) -> None:
        """Tell the news, for ever."""
        async with trio.open_nursery() as nursery:  # one task for each channel
            for webhook in self._webhooks:
                nursery.start_soon(self._serve, webhook)

    async def _serve(self, webhook: Webhook) -> None:
        async with Poster(Targets(webhook.allow, "allow")) as poster:
            at = await self._records.read(lambda connection: rows.standing(connection, webhook.channel))
            await self._records.write(lambda connection, _: rows.move(connection, webhook.channel, at))  # a new one begins here
            while True:
                since = self._records.changes
                wait_s = LOOK_S if at.retry_at is None else (at.retry_at - self._clock()).total_seconds()
                if at.retry_at is None or wait_s <= 0:
                    moved = await self._tell(webhook, poster, at)
                    if moved != at:
                        at = moved
                        continue
                    wait_s = LOOK_S
                with trio.move_on_after(min(max(wait_s, 0), LOOK_S)):
                    if at.retry_at is not None:
                        await trio.sleep_forever()  # whatever happens meanwhile, it comes behind
                    await self._records.wait_changed(since)

    async def _tell(self, webhook: Webhook, poster: Poster, at: Standing) -> Standing:
        """Tell the next piece that this channel is to hear; how far it has come then."""
        for news in await self._records.news_after(at.news, AT_ONCE):
            if not await self._is_wanted(webhook, news):
                at = Standing(news.number)  # on disk with the next piece that is told; skipped again after a kill
                continue
            notice = notice_of(webhook, news, self._links(news.record, webhook.channel))
            sent = await poster.post(webhook.url, notice.headers(webhook.key, self._clock()), notice.body)
            return await self._settle(webhook, news, at, sent)
        return at

    async def _settle(self, webhook: Webhook, news: News, at: Standing, sent: Sent) -> Standing:
        why = _why(sent)
        if why and not sent.refused and at.tries + 1 < webhook.tries:
            wait_s = min(self._backoff_s * 2**at.tries, BACKOFF_MAX_S)
            later = Standing(news.number - 1, at.tries + 1, self._clock() + timedelta(seconds=wait_s))
            await self._records.write(lambda connection, _: rows.move(connection, webhook.channel, later))
            return later
        outcome = "given-up" if why else "delivered"
        if why:
            _log.warning("Cannot tell a channel", channel=webhook.channel, news=news.number, why=why)
        await self._records.write(
            lambda connection, now: rows.told(connection, webhook.channel, news, outcome=outcome, why=why, now=now)
        )
        return Standing(news.number)

    async def _is_wanted(self, webhook: Webhook, news: News) -> bool:
        if news.record.approval.phase == "closed" and news.what in _STALE_WHEN_CLOSED:
            return False  # nobody can answer it any more; that it is closed is told further on
        if news.what == "escalation" and webhook.routes:
            return news.route in webhook.routes
        if news.what in webhook.tells:
            return True
        if news.what != "closed" or not webhook.routes:
            return False
        number, routes = news.record.number, webhook.routes
        return await self._records.read(lambda connection: rows.was_escalated(connection, number, routes))


def _why(sent: Sent) -> str:
    """Why the channel has not taken it; empty: it has. Nothing of an answer is kept but its status."""
    if sent.refused or sent.failed:
        return sent.refused or sent.failed
    assert sent.status is not None  # neither failed nor refused
    return "" if 200 <= sent.status < 300 else f"it answered HTTP {sent.status}"
