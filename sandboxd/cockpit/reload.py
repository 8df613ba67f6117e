"""What of a cockpit's config may change while it runs, and how does it change all at once?

SIGHUP: its people, `[[person]]`, and its rules, whichever files they stand in. The config and every file that it names are
read and checked first. If one thing is wrong with them, or something else was changed, nothing changes and all of it is told,
by file and key. Who is no longer named, or has another token, is refused from the next request on, signed out, and loses what
streams they have. Rules count for questions that come from then on: who may answer one that is open, how long it stands and
what is kept of its answer was settled when it came.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import trio

from sandboxd import logs, metrics
from sandboxd.cockpit.config import CockpitConfig, load_config
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.people import People
from sandboxd.cockpit.rules import RuleBook
from sandboxd.errors import LoadError, Problem
from sandboxd.service.notify import Notifier
from sandboxd.values import frozen

# The keys of the file, by what the config calls them.
_KEYS: Final = {
    "state_dir": "state-dir",
    "hosts": "host",
    "webhooks": "webhook",
    "relay": "caller",
    "questions_max": "max-questions",
    "open_max": "max-open",
    "open_per_host_max": "max-open-per-host",
}
_CHANGEABLE: Final = ("people", "rules")

_log = logs.logger(__name__)


@frozen
class Reloader:
    """`config` is what counts; its `people` are changed in place, for all who hold them, and the controller's `rules`."""

    path: Path
    config: CockpitConfig
    controller: Controller
    notifier: Notifier

    async def reload(self) -> None:
        """Go by the people and the rules of the files as they are now, or tell why not and go on as before."""
        self.notifier.reloading()
        try:
            found = await trio.to_thread.run_sync(load_config, self.path)
            if fixed := changed_keys(self.config, found):
                raise LoadError(str(self.path), [Problem(key, "changed, which takes a restart") for key in fixed])
        except LoadError as error:
            metrics.RELOADS.labels(outcome="refused").inc()
            _log.error("Cannot reload, so nothing has changed", why=str(error))
            self.notifier.ready(f"reload refused, the old people and rules count: {error}")
            return
        people, rules = changed_people(self.config.people, found.people), changed_rules(self.controller.rules, found.rules)
        self.config.people.change(found.people.everybody)  # no checkpoint between the two
        self.controller.rules = found.rules
        metrics.RELOADS.labels(outcome="done").inc()
        _log.info("reloaded", people=", ".join(people) or "nobody changed", rules=", ".join(rules) or "none changed")
        self.notifier.ready("ready; reloaded")


def changed_keys(before: CockpitConfig, after: CockpitConfig) -> list[str]:
    """The keys of the config that differ, but for those whose change needs no restart."""
    names = [field.name for field in attrs.fields(CockpitConfig) if field.name not in _CHANGEABLE]
    differing = [name for name in names if getattr(before, name) != getattr(after, name)]
    return [_KEYS.get(name, name.replace("_", "-")) for name in differing]


def changed_people(before: People, after: People) -> list[str]:
    """Who is new, gone or another, by name."""
    names = sorted({person.name for person in (*before.everybody, *after.everybody)})
    return [f"{name} ({word})" for name in names if (word := _change(before.by_name(name), after.by_name(name)))]


def changed_rules(before: RuleBook, after: RuleBook) -> list[str]:
    """Which rules are new, gone or others, by name; `[usual]`, and their order, where that alone has changed."""
    old, new = ({rule.name: rule for rule in book.rules} for book in (before, after))
    told = [f"{name} ({word})" for name in sorted({*old, *new}) if (word := _change(old.get(name), new.get(name)))]
    if (before.usual, before.bars_starter) != (after.usual, after.bars_starter):
        told.append("usual (changed)")
    return told or (["their order"] if before != after else [])


def _change(old: object, new: object) -> str:
    if old == new:
        return ""
    return "new" if old is None else "gone" if new is None else "changed"
