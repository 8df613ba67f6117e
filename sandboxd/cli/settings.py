"""Which config does a command go by?

`--config`, else `SANDBOXD_CONFIG` (click reads it), else the system's file. A file that is named must be there; the system's
file may be missing, where a command can do without it.
"""

from __future__ import annotations

from pathlib import Path

from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.config import DEFAULT_PATH, Config, load_config
from sandboxd.errors import LoadError


def read_config(given: str) -> Config:
    """The config that is meant; `Failure` when it is missing or does not hold."""
    path = Path(given) if given else DEFAULT_PATH
    if not is_there(path):
        hint = "" if given else "name one with --config FILE, or write one: sandboxd config init > sandboxd.toml"
        raise Failure(f"cannot read the config `{path}`: no such file", Exit.NOT_FOUND, hint=hint)
    try:
        return load_config(path)
    except LoadError as error:
        raise of_load_error(error) from error


def find_config(given: str) -> Config | None:
    """The same, or None where none is named and the system has none."""
    return read_config(given) if given or is_there(DEFAULT_PATH) else None


def is_there(path: Path) -> bool:
    """Whether there is something; what nobody lets us look at counts, so that reading it says why it cannot be read."""
    try:
        return path.exists()
    except PermissionError:
        return True
