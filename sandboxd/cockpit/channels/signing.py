"""Who has sent this, and which question is that link for?

One key for each channel, both ways: `t=<unix time>,v1=<hex HMAC-SHA256 of "<t>.<body>">`, as the daemon's push notifications
have it. A link holds the number of one question, its channel and its end, under a key of the cockpit's own; whoever has it may
look at that question, and nobody answers by it alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Final

import attrs

from sandboxd.values import frozen

WINDOW_S: Final = 300  # how far a sender's clock may be off, and how old a signature may be
_LINK: Final = re.compile(
    r"(?P<number>[1-9][0-9]{0,15})-(?P<ends>[0-9]{1,12})-(?P<channel>[a-z0-9.-]{1,64})-(?P<mac>[A-Za-z0-9_-]{43})"
)
_ABOUT: Final = b"sandboxd cockpit link/1\n"  # no other text that this key signs begins so


def signature(key: bytes, at_s: int, body: bytes) -> str:
    """The header's value."""
    return f"t={at_s},v1={_hex(key, at_s, body)}"


def why_not_signed(key: bytes, header: str, body: bytes, now: datetime) -> str:
    """Why that is not a signature of this body, made now; empty: it is."""
    fields = [item.partition("=") for item in header.split(",")]
    at = next((value for name, _, value in fields if name == "t"), "")
    if not re.fullmatch(r"[0-9]{1,12}", at):
        return "it carries no signature"
    good = _hex(key, int(at), body)
    if not any(name == "v1" and hmac.compare_digest(value.encode(), good.encode()) for name, _, value in fields):
        return "its signature does not hold"
    if abs(now.timestamp() - int(at)) > WINDOW_S:
        return f"its signature is not from these {WINDOW_S} s"
    return ""


@frozen
class Link:
    """What a link says."""

    number: int
    channel: str


@frozen
class LinkKey:
    """Makes links, and reads those that it made."""

    key: bytes = attrs.field(repr=False)

    def make(self, link: Link, ends_at: datetime) -> str:
        """The text that stands behind the last slash of the link."""
        said = f"{link.number}-{int(ends_at.timestamp())}-{link.channel}"
        return f"{said}-{self._mac(said)}"

    def read(self, text: str, now: datetime) -> Link | None:
        """What it says; None: it was not made here, or its time is over."""
        found = _LINK.fullmatch(text)
        if found is None or not hmac.compare_digest(self._mac(text[: -len(found["mac"]) - 1]), found["mac"]):
            return None
        if datetime.fromtimestamp(int(found["ends"]), UTC) <= now:
            return None
        return Link(int(found["number"]), found["channel"])

    def _mac(self, said: str) -> str:
        mac = hmac.new(self.key, _ABOUT + said.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def _hex(key: bytes, at_s: int, body: bytes) -> str:
    return hmac.new(key, f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
