"""How is a secret that was typed kept out of everything that is kept?

Its value lives in the run's memory, for as long as the run does, to be found again in what the program prints; it goes nowhere
else. A message that brought one is put on record without it.
"""

from __future__ import annotations

import attrs

from sandboxd.a2a.extensions import HITL_RESPONSE_FOR
from sandboxd.a2a.model import Message, Part

MARK = b"[secret]"
_SHORT = 4  # a PIN of three digits is everywhere in ordinary output: it is only taken out of its own echo
_ECHO_S = 2.0
_SECRETS_MAX = 32


@attrs.define(eq=False)
class _Secret:
    value: bytes = attrs.field(repr=False)
    until: float


class Veil:
    """Takes typed secrets out of a stream of output, wherever its pieces are cut."""

    def __init__(self) -> None:
        self._secrets: list[_Secret] = []
        self._held = b""

    def __repr__(self) -> str:
        return f"<Veil of {len(self._secrets)}>"

    def add(self, text: str, now: float) -> None:
        """This was typed."""
        value = text.encode()
        if not value:
            return
        until = now + _ECHO_S if len(value) < _SHORT else float("inf")
        self._secrets = [*self._secrets, _Secret(value, until)][-_SECRETS_MAX:]
        self._secrets.sort(key=lambda secret: -len(secret.value))

    def cover(self, data: bytes, now: float) -> bytes:
        """The output without secrets; an end that may be the beginning of one is held back for `rest`."""
        if not self._secrets:
            return data
        self._secrets = [secret for secret in self._secrets if now <= secret.until]
        data = self._held + data
        for secret in self._secrets:
            data = data.replace(secret.value, MARK)
        held = max((_overlap(data, secret.value) for secret in self._secrets), default=0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def rest(self) -> bytes:
        """What was held back, once nothing followed it for a while."""
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, secret: bytes) -> int:
    """How much of the end of the data is a beginning of the secret."""
    for size in range(min(len(data), len(secret) - 1), 0, -1):
        if data.endswith(secret[:size]):
            return size
    return 0


def without_secret(message: Message, prompt_id: str) -> Message:
    """The message as it goes on record: who sent it and which prompt it answers, and nothing of what it said."""
    parts = (Part("text", MARK.decode()),)
    return attrs.evolve(message, parts=parts, metadata={HITL_RESPONSE_FOR: {"prompt_id": prompt_id, "payload": {}}})
