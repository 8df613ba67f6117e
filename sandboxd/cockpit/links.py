"""To what else does a question belong, and who says so?

What this cockpit knows counts: its own missions and what they were started with, its hosts' names and providers. The rest is
the word of the task, which carries what it was started with (`a2a.links`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.a2a.links import read_links as read_metadata


def read_links(task: Mapping[str, Any]) -> Links:
    """What a task says that it belongs to."""
    return read_metadata(_metadata_of(task))


def known_links(said: Links, *, host: str, provider: str | None, mission: Links | None) -> Links:
    """The same with what this cockpit knows itself in its place; `mission`: what its own mission belongs to."""
    known = {name: value for name, value in attrs.asdict(mission or NO_LINKS).items() if value is not None}
    return attrs.evolve(said, **{"provider": provider or said.provider, **known, "sandbox": host})


def _metadata_of(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The task's own, then that of its client's messages, the one that started it first."""
    history = task.get("history")
    messages = [one for one in history if isinstance(one, Mapping)] if isinstance(history, list) else []
    for holder in (task, *(one for one in messages if one.get("role") == "ROLE_USER")):
        if isinstance(metadata := holder.get("metadata"), Mapping):
            yield metadata
