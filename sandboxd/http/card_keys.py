"""With which keys are agent cards signed?

One file in the state folder, `card-keys.json`, mode 0600: one Ed25519 key, made on first start, or two while a rotation goes
on. Cards are then signed with both, the newer one first, and the JWKS shows both, so a client that pinned the old key has until
the rotation is finished to learn the new one. The daemon goes by the file as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sandboxd.a2a.card_signing import COVERS, Signature, decode, encode, entry, jwk, payload, protected_header
from sandboxd.a2a.jsontext import canonical_json
from sandboxd.a2a.wire import parse_rfc3339, rfc3339
from sandboxd.serving.private_file import changing, make_private, read_private, unusable, write_private
from sandboxd.serving.watched import Watched
from sandboxd.values import frozen

FILE_NAME: Final = "card-keys.json"
KEYS_MAX: Final = 2
CARDS_MAX: Final = 256  # two of each instance, at each name of the host


@frozen
class CardKey:
    """One key; its `kid` is the thumbprint of its public half."""

    private: Ed25519PrivateKey = attrs.field(repr=False)
    created_at: datetime

    @property
    def jwk(self) -> dict[str, str]:
        """The public half."""
        return jwk(self.private.public_key().public_bytes_raw())

    @property
    def kid(self) -> str:
        """Its name."""
        return self.jwk["kid"]


class CardKeys:
    """The keys as the file has them now."""

    def __init__(self, path: Path, now: datetime) -> None:
        """Read the file, and make it where none is; `LoadError`."""
        make_private(path, _spell([CardKey(Ed25519PrivateKey.generate(), now)]))
        self._file = Watched(path, read_keys)
        self._made: dict[
            bytes, list[dict[str, Any]]
        ] = {}  # by the card; anyone may ask for one, and signing takes milliseconds
        self._made_with: Sequence[CardKey] = ()

    @property
    def changed_at(self) -> datetime:
        """When the newest key was made."""
        return self._file.value[0].created_at

    def jwks(self) -> dict[str, Any]:
        """The public halves, as a JWK set (RFC 7517 §5)."""
        return {"keys": [key.jwk for key in self._file.value]}

    def signed(self, card: Mapping[str, Any], jwks_url: str) -> dict[str, Any]:
        """The card with its signatures: of each key one over A2A's own form, then one over the JSON as it is."""
        keys = self._file.value
        if keys is not self._made_with or len(self._made) >= CARDS_MAX:
            self._made, self._made_with = {}, keys
        told = canonical_json([card, jwks_url])
        if told not in self._made:
            self._made[told] = _signatures(card, jwks_url, keys)
        return {**card, "signatures": self._made[told]}


def holds(signature: Signature, over: bytes, public: bytes) -> bool:
    """Whether the holder of that Ed25519 key signed that payload."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature.signature, signature.signed_bytes(over))
    except (InvalidSignature, ValueError):
        return False
    return True


def rotate(path: Path, now: datetime) -> Sequence[CardKey]:
    """Begin a rotation: a new key beside the one there is. `LoadError` while one goes on; else the keys, the new one first."""
    with changing(path):
        keys = read_keys(path)
        if len(keys) >= KEYS_MAX:
            raise unusable(path, "a rotation goes on already; finish it first")
        return _write(path, [CardKey(Ed25519PrivateKey.generate(), now), *keys])


def finish(path: Path) -> Sequence[CardKey]:
    """End a rotation: drop the older key. `LoadError` when none goes on; else the key that is left."""
    with changing(path):
        keys = read_keys(path)
        if len(keys) < KEYS_MAX:
            raise unusable(path, "no rotation goes on: there is one key")
        return _write(path, keys[:1])


def read_keys(path: Path) -> Sequence[CardKey]:
    """Every key, the newest first; `LoadError`."""
    text = read_private(path)
    try:
        spelled = json.loads(text)
        if spelled["format"] != 1:
            raise ValueError("its format is not 1")
        keys = [
            CardKey(Ed25519PrivateKey.from_private_bytes(decode(key["d"])), parse_rfc3339(key["created_at"]))
            for key in spelled["keys"]
        ]
        if not 1 <= len(keys) <= KEYS_MAX:
            raise ValueError(f"it must hold one or {KEYS_MAX} keys")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unusable(path, f"it holds no keys for agent cards: {error}") from error
    return keys


def _signatures(card: Mapping[str, Any], jwks_url: str, keys: Sequence[CardKey]) -> list[dict[str, Any]]:
    signatures = []
    for covers in COVERS:
        over = payload(card, covers)
        for key in keys:
            protected = protected_header(key.kid, jwks_url)
            made = Signature(protected, b"", key.kid, "").signed_bytes(over)
            signatures.append(entry(protected, key.private.sign(made), covers))
    return signatures


def _write(path: Path, keys: Sequence[CardKey]) -> Sequence[CardKey]:
    write_private(path, _spell(keys))
    return keys


def _spell(keys: Sequence[CardKey]) -> str:
    spelled = [{"created_at": rfc3339(key.created_at), "d": encode(key.private.private_bytes_raw())} for key in keys]
    return json.dumps({"format": 1, "keys": spelled}, indent=1) + "\n"
