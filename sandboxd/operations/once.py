"""Was this message acted on before? (idempotency/v1)

A message id, within its principal and instance, is acted on once in `TTL_S`. Two equal sends at once take turns: the second one
finds what the first one led to. What is remembered is the hash of the request and the task and event it led to, from which the
answer is told again; a refusal is kept as it went out. The transaction that acts on a message also notes that it did, so a
crash forgets both or neither.

An answer's payload is in no hash and in no record: for an answer the hash covers the request without payload and parts. While
the daemon lives it also compares a MAC of those, under a key that never leaves its memory, and so does the MAC; after a restart
an answer that is sent again with another payload cannot be told from the first.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from sandboxd.a2a.canonical import canonical, sha256_hex
from sandboxd.a2a.extensions import HITL_RESPONSE_FOR, IDEMPOTENCY_MAX_ENTRIES, IDEMPOTENCY_TTL_S
from sandboxd.errors import InvalidParams, MessageIdMalformed, MessageIdReused, NotReady, Problem
from sandboxd.live.clock import Clock
from sandboxd.store.base import SendKey, SendRecord, Store, StoreUnavailable, Told
from sandboxd.values import frozen

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PUSH_NAMES: Final = (
    *("taskPushNotificationConfig", "task_push_notification_config", "pushNotificationConfig", "push_notification_config"),
    *("pushNotification", "push_notification"),
)
_SECRETS_MAX: Final = 10_000  # answers whose MAC is remembered


@frozen
class Request:
    """One send: whose, and the hash of its parameters. `secret`: what of an answer must not be hashed, canonically spelled."""

    key: SendKey
    digest: str
    secret: bytes | None = attrs.field(default=None, repr=False)


@frozen
class Turn:
    """It is this request's turn; `found` is what an equal one before it led to, None: act."""

    request: Request
    found: SendRecord | None


def identify(principal: str, instance: str, params: Mapping[str, Any]) -> Request | None:
    """Which send the parameters are; None when they are so ill-formed that a door refuses them anyway.

    Raises `MessageIdMalformed`, `InvalidParams`. The hash is SHA-256 of the parameters in their canonical spelling (RFC
    8785), without `message.messageId`.
    """
    try:
        return _identify(principal, instance, params)
    except ValueError as error:
        raise InvalidParams(f"cannot take the message: it has no canonical spelling: {error}") from None


@attrs.define
class _Busy:
    """A message that is being acted on."""

    request: Request
    done: trio.Event = attrs.field(factory=trio.Event)


class Once:
    """Remembers messages. One for each daemon, the only one on its store."""

    def __init__(
        self, store: Store, clock: Clock, *, ttl_s: float = IDEMPOTENCY_TTL_S, max_entries: int = IDEMPOTENCY_MAX_ENTRIES
    ) -> None:
        self._store = store
        self._clock = clock
        self.ttl_s = ttl_s
        self._max_entries = max_entries
        self._busy: dict[SendKey, _Busy] = {}
        self._mac_key = secrets.token_bytes(32)
        self._macs: OrderedDict[SendKey, bytes] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Once busy={len(self._busy)}>"

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[Turn]:
        """Hold the message until the block ends; equal ones wait for that. Raises `MessageIdReused`, `NotReady`.

        The block may be cancelled: what had been done by then is on record, and the next equal request finds it.
        """
        while (other := self._busy.get(request.key)) is not None:
            if other.request.digest != request.digest or other.request.secret != request.secret:
                raise self._reused(other.request.digest, request)
            await other.done.wait()
        # No checkpoint between the last look and this.
        busy = self._busy[request.key] = _Busy(request)
        try:
            yield Turn(request, await self._find(request))
        finally:
            del self._busy[request.key]
            busy.done.set()

    async def refused(self, turn: Turn, told: Told) -> None:
        """Keep how the request of this turn was refused."""
        try:
            await self._store.settle(turn.request.key, told)
        except StoreUnavailable as error:
            raise NotReady(f"cannot remember the message: {error}") from error

    async def _find(self, request: Request) -> SendRecord | None:
        try:
            found = await self._store.reserve(
                request.key, request.digest, now=self._clock.now(), ttl_s=self.ttl_s, max_entries=self._max_entries
            )
        except StoreUnavailable as error:
            raise NotReady(f"cannot remember the message: {error}") from error
        if found is None:
            self._remember(request)
            return None
        if found.digest != request.digest or not self._is_same_secret(request):
            raise self._reused(found.digest, request)
        return None if found.task_id is None and found.told is None else found

    def _remember(self, request: Request) -> None:
        self._macs.pop(request.key, None)
        if request.secret is None:
            return
        self._macs[request.key] = self._mac(request.secret)
        while len(self._macs) > _SECRETS_MAX:
            self._macs.popitem(last=False)

    def _is_same_secret(self, request: Request) -> bool:
        known = self._macs.get(request.key)
        return known is None or request.secret is None or hmac.compare_digest(known, self._mac(request.secret))

    def _mac(self, secret: bytes) -> bytes:
        return hmac.digest(self._mac_key, secret, hashlib.sha256)

    def _reused(self, stored: str, request: Request) -> MessageIdReused:
        facts = {"stored_hash": stored, "request_hash": request.digest}
        why = "another request had it"
        if stored == request.digest:
            why = "an answer with another payload had it (the hashes leave the payload out)"
        return MessageIdReused(f"cannot take the message: its id is not new, {why}", facts=facts)


def _identify(principal: str, instance: str, params: Mapping[str, Any]) -> Request | None:
    name = "request" if params.get("message") is None else "message"  # as 0.3's HTTP+JSON calls it
    message = params.get(name)
    if not isinstance(message, Mapping):
        return None
    message_id = message.get("messageId", message.get("message_id"))
    if not isinstance(message_id, str) or not _UUID.fullmatch(message_id):
        why = Problem(f"{name}.messageId", "must be a UUID: idempotency/v1 is active")
        raise MessageIdMalformed("cannot take the message: its id is malformed", problems=[why])
    said = {name: value for name, value in message.items() if name not in ("messageId", "message_id")}
    secret = None
    metadata = said.get("metadata")
    if isinstance(metadata, Mapping) and HITL_RESPONSE_FOR in metadata:
        response = metadata[HITL_RESPONSE_FOR]
        known = {"prompt_id": response.get("prompt_id")} if isinstance(response, Mapping) else {}
        hidden = [response, said.pop("parts", None), said.pop("content", None)]
        said["metadata"] = {**metadata, HITL_RESPONSE_FOR: known}
        secret = canonical(hidden)
    request = {**params, name: said}
    configuration = params.get("configuration")
    if isinstance(configuration, Mapping):
        # A push config holds credentials.
        kept = {name: value for name, value in configuration.items() if name not in _PUSH_NAMES}
        if len(kept) < len(configuration):
            request["configuration"] = kept
            secret = (secret or b"") + canonical([configuration[name] for name in sorted(configuration) if name not in kept])
    key = SendKey(principal, instance, message_id.lower())
    return Request(key, sha256_hex(request), secret)
