"""What of a cockpit's config may change while it runs, and how does it change all at once?

SIGHUP: its people, `[[person]]`, and nothing else. The whole file is read and checked first. If one thing is wrong with it, or
something else was changed, nothing changes and all of it is told. Who is no longer named, or has another token, is refused from
the next request on, signed out, and loses what streams they have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import trio

from sandboxd import logs
from sandboxd.cockpit.config import CockpitConfig, load_config
from sandboxd.cockpit.people import People
from sandboxd.errors import LoadError, Problem
from sandboxd.service.notify import Notifier

# The keys of the file, by what the config calls them.
_KEYS: Final = {
    "state_dir": "state-dir",
    "hosts": "host",
    "webhooks": "webhook",
    "relay": "caller",
    "questions_max": "max-questions",
}

_log = logs.logger(__name__)


@attrs.frozen
class Reloader:
    """`config` is what counts; its `people` are changed in place, for all who hold them."""

    path: Path
    config: CockpitConfig
    notifier: Notifier

    async def reload(self) -> None:
        """Go by the people of the file as it is now, or tell why not and go on as before."""
        self.notifier.reloading()
        try:
            found = await trio.to_thread.run_sync(load_config, self.path)
            if fixed := changed_keys(self.config, found):
                raise LoadError(str(self.path), [Problem(key, "changed, which takes a restart") for key in fixed])
        except LoadError as error:
            _log.error("Cannot reload, so nothing has changed", why=str(error))
            self.notifier.ready(f"reload refused, the old people count: {error}")
            return
        told = changed_people(self.config.people, found.people)
        self.config.people.change(found.people.everybody)
        _log.info("reloaded", people=", ".join(told) or "nobody changed")
        self.notifier.ready("ready; reloaded")


def changed_keys(before: CockpitConfig, after: CockpitConfig) -> list[str]:
    """The keys of the config that differ, but for its people."""
    names = [field.name for field in attrs.fields(CockpitConfig) if field.name != "people"]
    differing = [name for name in names if getattr(before, name) != getattr(after, name)]
    return [_KEYS.get(name, name.replace("_", "-")) for name in differing]


def changed_people(before: People, after: People) -> list[str]:
    """Who is new, gone or another, by name."""
    told = []
    for name in sorted({person.name for person in (*before.everybody, *after.everybody)}):
        old, new = before.by_name(name), after.by_name(name)
        if old != new:
            told.append(f"{name} ({'new' if old is None else 'gone' if new is None else 'changed'})")
    return told
