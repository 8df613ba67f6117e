"""In which A2A version and in which manner does a request speak, and so is answered?

Version first: it is negotiated for each URL (A2A 1.0 §3.6), and nothing said means 0.3. Then the manner, which is how answers
and refusals are spelled:

* `rpc`: JSON-RPC, at an instance's base URL and `/rpc`.
* `rest`: A2A 1.0 over HTTP+JSON.
* `rest03`: A2A 0.3 over HTTP+JSON, ProtoJSON of the 0.3 proto.
* `dialect`: the `messages:send` dialect, 0.3's kind-tagged JSON and problem documents.

The last two share paths (`/v1/tasks/{id}`) and clients of both leave the version out, so the headers tell them apart: the
dialect's clients name extensions by `A2A-Extensions`, 0.3's own by `X-A2A-Extensions` or by saying `A2A-Version: 0.3`. Who
says nothing at all is told apart by the URL: below `OWN_03`, which the card gives 0.3's SDKs for their HTTP+JSON, below `/v1/`
of the root, and with a `:verb`, it is 0.3's own; else it is the dialect's, which lives below `/agents/{instance}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

from sandboxd.a2a import dialect, v03, v03proto, v10, versions
from sandboxd.a2a.card import OWN_03
from sandboxd.a2a.codec import Codec
from sandboxd.a2a.versions import Version
from sandboxd.errors import VersionNotSupported
from sandboxd.values import frozen

Manner = Literal["rpc", "rest", "rest03", "dialect"]

EXTENSIONS: Final = "A2A-Extensions"
EXTENSIONS_03: Final = "X-A2A-Extensions"
_HOST_PATHS: Final = ("healthz", "readyz", "metrics", "audit", "push", "schemas", ".well-known")
_DIALECT_STEPS: Final = ("cancel", "subscribe", "artifacts")


class Headers(Protocol):
    """The request's headers, as far as they are needed here."""

    def getlist(self, key: str, /) -> Sequence[str]:
        """Every value of a header."""


@frozen
class Speech:
    """How one request speaks. `refusal`: the version that it asks for is spoken nowhere here."""

    version: Version
    manner: Manner
    refusal: VersionNotSupported | None = None

    @property
    def codec(self) -> Codec:
        """The codec of its answers."""
        if self.manner == "rpc":
            return v10 if self.version == "1.0" else v03
        return _CODECS[self.manner]


_CODECS: Final[Mapping[Manner, Codec]] = {"rest": v10, "rest03": v03proto, "dialect": dialect}


def speech_of(path: str, headers: Headers, query: Sequence[tuple[str, str]]) -> Speech:
    """How a request to that path speaks; `check` says whether the path takes it."""
    try:
        version = versions.negotiate(headers.getlist(versions.HEADER), said_in(query))
    except VersionNotSupported as refusal:
        return Speech("1.0", _manner(path, "1.0", headers), refusal)
    return Speech(version, _manner(path, version, headers))


def said_in(query: Sequence[tuple[str, str]]) -> list[str]:
    """Every version that the query names; a parameter's name is as insensitive to case as the header's."""
    return [value for name, value in query if name.lower() == versions.HEADER.lower()]


def steps_of(path: str) -> list[str]:
    """The path's segments below its instance; `[""]` is the base URL itself."""
    steps = path.strip("/").split("/")
    return (steps[2:] or [""]) if steps[0] == "agents" and len(steps) > 1 else steps


def _manner(path: str, version: Version, headers: Headers) -> Manner:
    steps = steps_of(path)
    if steps[0] in ("", "rpc") or steps in (["v1"], ["v1", "rpc"]):
        return "rpc"
    if steps[0] in _HOST_PATHS:
        return "rest"
    is_own = steps[0] == OWN_03.strip("/")
    steps = (steps[1:] or [""]) if is_own else steps
    is_pinned = is_own or steps[0] == "v1"  # whatever was said: only 0.3 is spoken there
    steps = (steps[1:] or [""]) if steps[0] == "v1" else steps
    if steps[0].startswith("messages:"):
        return "dialect"
    if version == "1.0" and not is_pinned:
        return "dialect" if steps[0] == "tasks" and len(steps) == 3 and steps[2] in ("cancel", "subscribe") else "rest"
    if steps[0] == "tasks" and len(steps) > 2 and steps[2] in _DIALECT_STEPS:
        return "dialect"
    if steps[0].startswith("message:") or steps[0] in ("card", "extendedAgentCard"):
        return "rest03"
    if headers.getlist(EXTENSIONS_03):
        return "rest03"
    if headers.getlist(EXTENSIONS):
        return "dialect"
    if any(value.strip() for value in headers.getlist(versions.HEADER)):
        return "rest03"
    is_by_url = is_own or (is_pinned and (not path.startswith("/agents/") or ":" in steps[-1]))
    return "rest03" if is_by_url else "dialect"
