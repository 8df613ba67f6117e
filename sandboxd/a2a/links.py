"""To what else does a task belong, by the word of whoever started it?

The approval workflow's audit names mission, flow, provider, sandbox, issue and trace. They stand in no envelope: a message that
starts a task carries them in its metadata, as `urn:sandboxd:links:v1`, `urn:sandboxd:mission:v1` and W3C's `traceparent`
(Trace Context, 3.2). That is somebody's word, so only what looks like an id is taken; it is for the record and decides nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

import attrs

from sandboxd.a2a.extensions import LINKS, MISSION
from sandboxd.values import frozen

TRACEPARENT: Final = "traceparent"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#@+-]{0,127}")
_TRACE: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?P<trace>(?!0{32})[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


@frozen
class Links:
    """What something belongs to, as far as it is known.

    `parent` is the mission of whoever had `mission` done, as that one calls it. `sandbox` is the host, by the name that whoever
    drives it has for it.
    """

    mission: str | None = None
    flow: str | None = None
    provider: str | None = None
    sandbox: str | None = None
    issue: str | None = None
    trace: str | None = None
    parent: str | None = None


NO_LINKS: Final = Links()
NAMES: Final = tuple(field.name for field in attrs.fields(Links))


def is_link(value: Any) -> TypeGuard[str]:
    """Whether it looks like an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def trace_of(traceparent: Any) -> str | None:
    """The trace of a `traceparent`, if it is one."""
    found = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    return found["trace"] if found else None


def read_links(holders: Iterable[Mapping[str, Any]]) -> Links:
    """What these pieces of metadata say; of several words about the same the first one counts."""
    said = dict[str, str]()
    for metadata in holders:
        listed, mission = metadata.get(LINKS), metadata.get(MISSION)
        words = [(name, listed.get(name)) for name in NAMES] if isinstance(listed, Mapping) else []
        if isinstance(mission, Mapping):
            words.append(("mission", mission.get("mission_id")))
        words.append(("trace", trace_of(metadata.get(TRACEPARENT))))
        for name, value in words:
            if is_link(value):
                said.setdefault(name, value)
    return Links(**said)


def links_metadata(links: Links, message_id: str) -> dict[str, Any]:
    """The metadata of a message that carries them; empty where there are none.

    A trace of W3C's form goes on as `traceparent` too: its span is the message.
    """
    said = {name: value for name, value in attrs.asdict(links).items() if value is not None}
    metadata: dict[str, Any] = {LINKS: said} if said else {}
    if links.trace is not None and _TRACE.fullmatch(links.trace):
        span = hashlib.sha256(message_id.encode()).hexdigest()[:16]
        metadata[TRACEPARENT] = f"00-{links.trace}-{span}-00"
    return metadata
