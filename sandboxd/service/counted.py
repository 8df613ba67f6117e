"""Which config counts in the daemon that runs, and what of another one would take a restart?

The daemon leaves a copy of what counts in its state folder, at its start and after each reload, by which `sandboxd check
reload` answers: the unit asks it before the signal is sent, so that `systemctl reload` itself fails with the keys by name. A
key that is not in `RELOADABLE` takes a restart: one that nobody thought of is never half in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from sandboxd import logs
from sandboxd.config import Config, to_json
from sandboxd.errors import LoadError, Problem
from sandboxd.serving.private_file import read_private, write_private

FILE_NAME: Final = "counted-config.json"
RELOADABLE: Final = (
    "programs.*",
    "instance.*.policies",
    "auth.tokens.*",
    "limits.max_tasks",
    "limits.max_tasks_per_instance",
    "limits.max_tasks_per_principal",
    "limits.max_events",
    "limits.stop_grace",
    "limits.rate",
    "limits.burst",
    "retention.*",
)

_log = logs.logger(__name__)


def note(config: Config) -> None:
    """This one counts from now on. A disk that takes no note leaves none, rather than an old one."""
    path = config.state_dir / FILE_NAME
    try:
        path.unlink(missing_ok=True)
        write_private(path, json.dumps(to_json(config)))
    except (OSError, LoadError) as error:
        _log.warning("Cannot note which config counts, so `sandboxd check reload` cannot compare", why=str(error))


def against_what_counts(config: Config) -> tuple[tuple[Problem, ...], str]:
    """Everything about that config that the daemon could not go by without a restart; and a word where there is nothing.

    `LoadError` when the daemon's note is not what it wrote.
    """
    path = config.state_dir / FILE_NAME
    if not path.exists():
        return (), "nothing to compare it with: no daemon has left word in its state folder"
    try:
        old: dict[str, Any] = json.loads(read_private(path))
    except ValueError as error:
        raise LoadError(str(path), [Problem("", f"it is no JSON: {error}")]) from error
    changed = changes(old, json.loads(json.dumps(to_json(config))))  # as JSON has it: lists for tuples
    return fixed(changed), f"changed since it was read: {', '.join(changed) or 'nothing'}"


def fixed(changed: list[str]) -> tuple[Problem, ...]:
    """Those of the changed keys that take a restart."""
    return tuple(
        Problem(key, "changed, which takes a restart")
        for key in changed
        if not any(fnmatchcase(key, pattern) for pattern in RELOADABLE)
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The keys whose values differ, such as `listen.tcp` or `instance.main.policies`; configs as `to_json` has them."""
    old, new = _flat(before), _flat(after)
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        elif key == "instance":
            for instance in value:
                found |= _flat(instance, f"instance.{instance['id']}.")
        else:
            found[prefix + key] = value
    return found
