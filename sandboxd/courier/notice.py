"""What does one notification say, and how does its receiver know who sent it?

Spelled as its config was: 1.0 as a `StreamResponse`, the dialect as 0.3's kind-tagged event, 0.3 as the whole task, which is
what its receivers read. `X-AIWG-Event-Id` is `{task}-{sequence number}`: the same whenever the event is sent again.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from sandboxd.a2a import v03, v10
from sandboxd.a2a.jsontext import dump_json
from sandboxd.a2a.model import StatusUpdate
from sandboxd.operations import render
from sandboxd.operations.host import Caller, Host
from sandboxd.store.base import PushEntry, StoredEvent
from sandboxd.tasks.events import Event, Wrote
from sandboxd.tasks.view import TaskView
from sandboxd.values import frozen

EVENT_ID: Final = "X-AIWG-Event-Id"
CONFIG_ID: Final = "X-AIWG-Config-Id"
SIGNATURE: Final = "X-AIWG-Signature"
CHECK_HEADER: Final = "X-A2A-Notification-Token"


@frozen
class Notice:
    """One notification, but for the signature, which says when it was made."""

    entry: PushEntry
    seq: int
    media_type: str
    body: str

    @property
    def url(self) -> str:
        """Where it goes: receivers that check a signature look its key up by `configId`."""
        config = self.entry.config
        if config.secret is None and config.style != "dialect":
            return config.url
        bare, _, query = config.url.partition("?")
        if any(name in ("configId", "config_id") for name, _ in parse_qsl(query)):
            return config.url
        return f"{bare}?{query}{'&' if query else ''}configId={quote(config.id, safe='')}"

    def headers(self, now: datetime) -> list[tuple[str, str]]:
        """Its headers, signed now."""
        config = self.entry.config
        lines = [
            ("Content-Type", self.media_type),
            ("Content-Length", str(len(self.body.encode()))),
            ("User-Agent", "sandboxd"),
            (EVENT_ID, f"{self.entry.task_id}-{self.seq}"),
            (CONFIG_ID, config.id),
        ]
        if config.style == "1.0":
            lines.append(("A2A-Version", "1.0"))
        if config.token is not None:
            lines.append((CHECK_HEADER, config.token))
        if config.scheme is not None:
            lines.append(("Authorization", f"{config.scheme} {config.credentials or ''}".rstrip()))
        if config.secret is not None:
            lines.append((SIGNATURE, signature(config.secret, int(now.timestamp()), self.body)))
        return lines


def signature(secret: str, at_s: int, body: str) -> str:
    """`t=<unix time>,v1=<hex HMAC-SHA256 of "<t>.<body>">`."""
    mac = hmac.new(secret.encode(), f"{at_s}.{body}".encode(), hashlib.sha256)
    return f"t={at_s},v1={mac.hexdigest()}"


def is_wanted(entry: PushEntry, event: Event) -> bool:
    """Whether the config asks to be told of that event; the task of 0.3 has its output once it is over."""
    kind = "artifact" if isinstance(event, Wrote) else "status"
    if kind == "artifact" and entry.config.style == "0.3":
        return False
    return not entry.config.news or kind in entry.config.news


async def notice_of(host: Host, entry: PushEntry, view: TaskView, stored: StoredEvent) -> Notice:
    """The notification of one event; `view` is the task right after it."""
    caller = Caller(entry.principal, frozenset(entry.extensions))
    news = render.update(caller, view, stored)
    spelled: dict[str, Any]
    match entry.config.style:
        case "1.0":
            spelled = v10.encode_stream_item(news)
        case "dialect":
            spelled = v03.encode_stream_item(news)
        case "0.3":
            is_over = isinstance(news, StatusUpdate) and news.status.state.is_terminal
            spelled = v03.encode_task(await render.task(host, caller, view, with_artifacts=is_over))
    media_type = "application/a2a+json" if entry.config.style == "1.0" else "application/json"
    return Notice(entry, stored.seq, media_type, dump_json(spelled).decode())
