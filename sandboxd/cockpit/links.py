"""What else does a question belong to, and who says so?

The audit of the approval workflow names mission, flow, provider, sandbox, issue and trace, which stand in no envelope. What
this cockpit knows counts: its own missions, its hosts' names and providers. The rest is what the task itself carries in its
metadata, put there by whoever started it: `urn:sandboxd:links:v1`, `urn:sandboxd:mission:v1` and W3C's `traceparent`. That is
somebody's word, so only what looks like an id is taken, and it is on record and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from sandboxd.a2a.extensions import LINKS, MISSION
from sandboxd.cockpit.audit import Links

NAMES: Final = ("mission", "flow", "provider", "issue", "trace")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#@+-]{0,127}")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")  # W3C Trace Context, 3.2.2


def read_links(task: Mapping[str, Any]) -> Links:
    """What a task says that it belongs to; of several words about the same the first one counts."""
    said = dict[str, str]()
    for metadata in _metadata_of(task):
        mission, trace, listed = metadata.get(MISSION), metadata.get("traceparent"), metadata.get(LINKS)
        if isinstance(listed, Mapping):
            for name in NAMES:
                _put(said, name, listed.get(name))
        if isinstance(mission, Mapping):
            _put(said, "mission", mission.get("mission_id"))
        if isinstance(trace, str) and (found := _TRACEPARENT.fullmatch(trace)):
            _put(said, "trace", found["trace"])
    return Links(**said)


def known_links(said: Links, *, host: str, provider: str | None, mission: str | None) -> Links:
    """The same with what this cockpit knows itself in its place."""
    return attrs.evolve(said, sandbox=host, provider=provider or said.provider, mission=mission or said.mission)


def _put(said: dict[str, str], name: str, value: Any) -> None:
    if isinstance(value, str) and _ID.fullmatch(value):
        said.setdefault(name, value)


def _metadata_of(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The task's own, then that of its client's messages, the one that started it first."""
    history = task.get("history")
    messages = [one for one in history if isinstance(one, Mapping)] if isinstance(history, list) else []
    for holder in (task, *(one for one in messages if one.get("role") == "ROLE_USER")):
        if isinstance(metadata := holder.get("metadata"), Mapping):
            yield metadata
