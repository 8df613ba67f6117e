"""Where are answers that must never be on disk?

In the memory of this process, under names that mean nothing elsewhere. What has to be compared is compared under a key that
dies with the process, so what is on disk of it cannot be tried against guesses.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

from sandboxd.approvals.record import Payload, payload


class Vault:
    """The secrets of open questions; forgotten with the process, and by `forget`."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._kept: dict[int, dict[str, Mapping[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"<Vault for {len(self._kept)} questions>"

    def keep(self, question: int, value: Mapping[str, Any]) -> Payload:
        """Keep an answer to that question; the payload that stands for it on disk."""
        name = secrets.token_urlsafe(16)
        self._kept.setdefault(question, {})[name] = value
        sense = payload(value).sense.encode()
        return Payload(name, hmac.new(self._key, sense, hashlib.sha256).hexdigest(), is_secret=True)

    def get(self, question: int, said: Payload) -> Mapping[str, Any] | None:
        """The answer, or None: it is no longer there."""
        return self._kept.get(question, {}).get(said.body)

    def forget(self, question: int, *, but: set[str]) -> None:
        """Let go of the answers to that question, but for those with these names."""
        kept = {name: value for name, value in self._kept.pop(question, {}).items() if name in but}
        if kept:
            self._kept[question] = kept
