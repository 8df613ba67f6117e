"""How do unit files get onto a system, and do those that are there still fit?"""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from sandboxd import logs
from sandboxd.config import Config
from sandboxd.errors import LoadError
from sandboxd.service.units import BUBBLEWRAP, UNITS, UnitFile, needs_bubblewrap, optional_files, unit_files
from sandboxd.values import frozen

_log = logs.logger(__name__)


@frozen
class Drift:
    """A file that is not as it should be. `lines`: a unified diff from what is there to what should be."""

    path: Path
    why: str
    lines: tuple[str, ...] = ()


def install(files: Iterable[UnitFile], root: Path, optional: Iterable[Path] = optional_files()) -> list[Path]:
    """Write what is not there yet or is otherwise, and remove what of `optional` is too much; the files that changed.

    `OSError`.
    """
    files = list(files)
    changed = []
    for file in files:
        path = root / file.path
        if _text(path) == file.text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # systemd does not read names that begin with a dot
        draft.write_text(file.text)
        draft.chmod(0o644)
        draft.replace(path)
        changed.append(path)
    for path in _surplus(files, root, optional):
        path.unlink()
        changed.append(path)
    return changed


def drift(files: Iterable[UnitFile], root: Path, optional: Iterable[Path] = optional_files()) -> list[Drift]:
    """What `install` would change."""
    files = list(files)
    found = []
    for file in files:
        path = root / file.path
        there = _text(path)
        if there is None:
            found.append(Drift(path, "is missing"))
        elif there != file.text:
            lines = difflib.unified_diff(
                there.splitlines(), file.text.splitlines(), "installed", "of the config", lineterm="", n=0
            )
            found.append(Drift(path, "is for another config or another sandboxd", tuple(lines)))
    return found + [Drift(path, "is not needed by the config") for path in _surplus(files, root, optional)]


def files_for(config: Config, root: Path, *, bubblewrap: bool | None = None) -> tuple[UnitFile, ...]:
    """As `unit_files`. `bubblewrap` None: where the config needs it, or it is installed already."""
    if bubblewrap is None:
        bubblewrap = needs_bubblewrap(config) or (root / BUBBLEWRAP).exists()
    return unit_files(config, bubblewrap=bubblewrap)


def warn_of_drift(config: Config, root: Path = Path("/")) -> None:
    """For a daemon that runs as a unit of ours: say in the log what of it is for another config."""
    if not os.path.lexists(root / UNITS / "sandboxd.service"):
        return  # somebody else's unit
    try:
        found = drift(files_for(config, root), root)
    except (LoadError, OSError) as error:
        _log.warning("the config is none for a unit; see `sandboxd install-units`", why=str(error))
        return
    for one in found:
        _log.warning("a unit file has drifted; see `sandboxd install-units --check`", file=str(one.path), why=one.why)


def _surplus(files: Iterable[UnitFile], root: Path, optional: Iterable[Path]) -> list[Path]:
    wanted = {file.path for file in files}
    return [root / path for path in optional if path not in wanted and os.path.lexists(root / path)]


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
