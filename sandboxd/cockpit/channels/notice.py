"""What does a channel say about one piece of news?

For programs JSON, for a chat one text. Neither holds an answer, and nothing of a text from elsewhere can call somebody in the
chat or become a link there. The same piece has the same id, however often it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sandboxd.a2a.jsontext import dump_json
from sandboxd.a2a.wire import rfc3339
from sandboxd.cockpit.channels.config import Webhook
from sandboxd.cockpit.channels.signing import signature
from sandboxd.cockpit.receipts.progress import progress_json, progress_text
from sandboxd.cockpit.record import News, Record
from sandboxd.hitl.envelope import plain_text
from sandboxd.hitl.received import asks_secret
from sandboxd.values import frozen

SCHEMA: Final = "sandboxd.news/1"
TEXT_MAX_CHARS: Final = 1000
_CALLS: Final = re.compile(r"[@&<>`*_~|\[\]()]")


@frozen
class Notice:
    """One request, but for the signature, which says when it was made."""

    id: str
    body: bytes

    def headers(self, key: bytes, now: datetime) -> list[tuple[str, str]]:
        """Its headers, signed now."""
        return [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(self.body))),
            ("User-Agent", "sandboxd-cockpit"),
            ("X-AIWG-Event-Id", self.id),
            ("X-AIWG-Signature", signature(key, int(now.timestamp()), self.body)),
        ]


def notice_of(webhook: Webhook, news: News, link: str | None) -> Notice:
    """What this channel says; `link`: where the question can be looked at, if there is a page."""
    if webhook.form == "text":
        spelled: Mapping[str, Any] = {"text": text_of(webhook, news, link)}
    else:
        spelled = {
            "schema": SCHEMA,
            "number": news.number,
            "what": news.what,
            "route": news.route or None,
            "why": news.why or None,
            "link": link,
            "prompt": prompt_json(news.record, shows_question=webhook.shows_question),
        }
    return Notice(f"{webhook.name}-{news.number}", dump_json(spelled))  # two channels may have one receiver


def prompt_json(record: Record, *, shows_question: bool) -> dict[str, Any]:
    """The question, for a program."""
    approval, place = record.approval, record.place
    about: dict[str, Any] = {
        "number": record.number,
        "prompt_id": record.prompt_id,
        "host": place.host,
        "task_id": place.task_id,
        "context_id": place.context_id,
        "rev": approval.rev,
        "status": approval.status,
        "phase": approval.phase,
        "reason": approval.reason or None,
        "closes_at": rfc3339(approval.closes_at),
        "votes": len(approval.votes),
        "votes_needed": approval.votes_needed,
        "is_secret": asks_secret(record.envelope["response_schema"]),
        "progress": progress_json(record),
    }
    if shows_question:
        about |= {"question": record.envelope["prompt"], "response_schema": record.envelope["response_schema"]}
    return about


def text_of(webhook: Webhook, news: News, link: str | None) -> str:
    """The same for a chat: the link first, then what it is about."""
    record = news.record
    about = f"question {record.number} of {record.place.host}"
    lines = [link] if link else []
    match news.what:
        case "closed":
            lines.append(f"{about} is closed: {record.approval.status}. No answer is taken any more.")
        case "alert":
            lines.append(f"{about} needs an operator: {_tame(news.why)}")
        case "receipt":
            lines.append(f"The answer to {about}: {_tame(progress_text(record))}")
        case "invalid":
            lines.append(f"{about} is open still: an answer did not fit.")
        case what:
            said = {"asked": "waits", "reminder": "waits still", "escalation": "waits, and nobody has answered"}[what]
            lines.append(f"{about} {said}, until {record.approval.closes_at:%Y-%m-%d %H:%M} UTC.")
            if record.approval.votes_needed > 1:
                lines.append(f"{len(record.approval.votes)} of {record.approval.votes_needed} who must agree have answered.")
            if webhook.shows_question:
                lines.append(f"It asks: {_tame(record.envelope['prompt'])}")
            if link is None:
                lines.append(f"Answer it: sandboxd answer {record.prompt_id[:8]} --cockpit …")
    return "\n".join(lines)


def _tame(text: str) -> str:
    """Text from elsewhere on one line; markup, links and calls of a chat are kept apart by a character of no width."""
    plain = " ".join(plain_text(text).split())
    cut = plain if len(plain) <= TEXT_MAX_CHARS else plain[: TEXT_MAX_CHARS - 1] + "…"
    return _CALLS.sub(lambda found: f"{found[0]}\u200b", cut).replace("://", ":\u200b//").replace(".", ".\u200b")
