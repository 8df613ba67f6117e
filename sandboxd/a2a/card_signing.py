"""Which bytes of an agent card are signed, and how does a signature stand on it? (A2A 1.0 §8.4)

A detached JWS (RFC 7515) over the card's RFC 8785 form without its `signatures`. What that form is, is read in two ways, and a
card has a signature of each key for both; a verifier needs one that holds:

* `a2a`: the fields that A2A 1.0 defines, without those that protobuf would not write (empty values, `required: false`). This is
  what A2A's own SDK verifies. 0.3's fields on a merged card are not in it; but for the 0.3 version's interfaces they say
  nothing new.
* `json`: the JSON as it was sent, for verifiers that know nothing of protobuf.

`header.covers` says which one it is. The keys are elsewhere; nothing here knows how to sign.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

from sandboxd.a2a.canonical import canonical
from sandboxd.a2a.jsontext import parse_json
from sandboxd.errors import InvalidJson
from sandboxd.values import frozen

Covers = Literal["a2a", "json"]
COVERS: Final[tuple[Covers, ...]] = ("a2a", "json")
ALGORITHM: Final = "EdDSA"  # RFC 8037, with Ed25519
JWKS_PATH: Final = "/.well-known/jwks.json"

_FIELDS: Final = (
    *("name", "description", "supportedInterfaces", "provider", "version", "documentationUrl", "capabilities"),
    *("securitySchemes", "securityRequirements", "defaultInputModes", "defaultOutputModes", "skills", "iconUrl"),
)
_SCHEMES: Final = frozenset(f"{kind}SecurityScheme" for kind in ("apiKey", "httpAuth", "oauth2", "openIdConnect", "mtls"))


@frozen
class Signature:
    """One entry of `signatures`, as far as it can be read. `kid` and `alg` are what it claims."""

    protected: str
    signature: bytes
    kid: str
    alg: str

    def signed_bytes(self, payload: bytes) -> bytes:
        """What the key signed, if it signed that payload."""
        return f"{self.protected}.{encode(payload)}".encode()


def payload(card: Mapping[str, Any], covers: Covers) -> bytes:
    """The bytes that stand for the card."""
    plain = {name: value for name, value in card.items() if name != "signatures"}
    return canonical(plain if covers == "json" else _a2a_fields(plain))


def protected_header(kid: str, jwks_url: str) -> str:
    """The protected header, as it stands in the entry."""
    return encode(canonical({"alg": ALGORITHM, "kid": kid, "jku": jwks_url, "typ": "JOSE"}))


def entry(protected: str, signature: bytes, covers: Covers) -> dict[str, Any]:
    """One entry of `signatures`."""
    return {"protected": protected, "signature": encode(signature), "header": {"covers": covers}}


def read_entry(spelled: Any) -> Signature | None:
    """The entry; None when it is no JWS of A2A's."""
    if not isinstance(spelled, Mapping):
        return None
    protected, signature = spelled.get("protected"), spelled.get("signature")
    if not isinstance(protected, str) or not isinstance(signature, str):
        return None
    try:
        header = parse_json(decode(protected))
        value = decode(signature)
    except (InvalidJson, ValueError):
        return None
    if not isinstance(header, Mapping) or "crit" in header:  # RFC 7515 §4.1.11: nothing critical is understood here
        return None
    return Signature(protected, value, str(header.get("kid", "")), str(header.get("alg", "")))


def jwk(public: bytes) -> dict[str, str]:
    """An Ed25519 public key as a JWK; its `kid` is its thumbprint (RFC 7638)."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": encode(public)}
    kid = encode(hashlib.sha256(canonical(members)).digest())
    return {**members, "kid": kid, "alg": ALGORITHM, "use": "sig"}


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes:
    """The inverse; `ValueError`."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64url: {error}") from error


def _a2a_fields(card: Mapping[str, Any]) -> Any:
    known = {name: value for name, value in card.items() if name in _FIELDS}
    schemes = known.get("securitySchemes")
    if isinstance(schemes, Mapping):
        known["securitySchemes"] = {
            name: {kind: value for kind, value in scheme.items() if kind in _SCHEMES} if isinstance(scheme, Mapping) else scheme
            for name, scheme in schemes.items()
        }
    capabilities = known.get("capabilities")
    if isinstance(capabilities, Mapping) and isinstance(extensions := capabilities.get("extensions"), list):
        known["capabilities"] = {**capabilities, "extensions": [_explicit(extension) for extension in extensions]}
    return _without_empty(known) or {}


def _explicit(extension: Any) -> Any:
    if not isinstance(extension, Mapping):
        return extension
    return {name: value for name, value in extension.items() if (name, value) != ("required", False)}


def _without_empty(value: Any) -> Any:
    """Without empty strings, lists and objects, and without what is empty once they are gone; None: nothing is left."""
    match value:
        case Mapping():
            return {name: kept for name, item in value.items() if (kept := _without_empty(item)) is not None} or None
        case list():
            return [kept for item in value if (kept := _without_empty(item)) is not None] or None
        case "":
            return None
        case _:
            return value
