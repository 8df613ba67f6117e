"""Which unit files does a cockpit need on this machine?

Its units are shipped as they are; drop-ins say where sandboxd is installed, which config is meant, where its state is and
where it listens. A cockpit is a service of its own: it may stand beside a daemon, or on a machine that runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sandboxd import packs
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.table import parse_toml
from sandboxd.service.units import (
    DROP_IN,
    HIDDEN,
    STATE,
    UNITS,
    UnitFile,
    command,
    escaped,
    homes,
    quoted,
    shipped_text,
    with_drop_in,
)

SERVICE: Final = "sandboxd-cockpit.service"
SOCKET: Final = "sandboxd-cockpit.socket"
DEFAULT_PATH: Final = Path("/etc/sandboxd/cockpit.toml")
_STATE_DIR: Final = STATE / "sandboxd-cockpit"
_RUN_DIR: Final = Path("/run/sandboxd-cockpit")


def cockpit_files(source: Path) -> tuple[UnitFile, ...]:
    """Every file, for the sandboxd that runs here; `LoadError` names all that would not work in the unit.

    The config is only looked at: what it names is read, and made, by the cockpit's own user.
    """
    source = source.absolute()
    config = parse_toml(str(source), packs.read(source).text)
    if problems := list(_problems(source, config)):
        raise LoadError(str(source), problems)
    files = [UnitFile(Path("etc/sysusers.d/sandboxd.conf"), shipped_text("sysusers.conf"))]
    doors = _doors(source, config)
    files += with_drop_in(SERVICE, _service(source, Path(config["state-dir"]), has_doors=bool(doors)))
    if doors:
        has_users = any(isinstance(person, dict) and "uid" in person for person in config.get("person", []))
        files += with_drop_in(SOCKET, _socket(doors, has_users=has_users))
    return tuple(files)


def optional_cockpit_files() -> tuple[Path, ...]:
    """Files of ours that some configs of a cockpit need and others do not."""
    return (UNITS / SOCKET, UNITS / f"{SOCKET}.d" / DROP_IN)


def _doors(source: Path, config: dict[str, Any]) -> tuple[str, ...]:
    """Where its sockets are to listen, as the config says."""
    web = config.get("web", {})
    unix, tcp = web.get("unix"), web.get("tcp")
    return (*([str(source.parent / unix)] if unix else []), *([str(tcp)] if tcp else []))


def _socket(doors: tuple[str, ...], *, has_users: bool) -> Iterator[str]:
    yield from ("", "[Socket]", "ListenStream=", *(f"ListenStream={escaped(door)}" for door in doors))
    if has_users:
        yield "SocketMode=0666"


def _service(source: Path, state_dir: Path, *, has_doors: bool) -> Iterator[str]:
    run = f"{quoted(command())} cockpit --config {quoted(source)}"
    if has_doors:
        yield from ("", "[Unit]", f"Requires={SOCKET}", f"After={SOCKET}")
    yield from ("", "[Service]", "ExecStart=", f"ExecStart={run}")
    yield from ("ExecReload=", f"ExecReload={run} --check", "ExecReload=/bin/kill -HUP $MAINPID")
    if state_dir != _STATE_DIR:
        yield from ("StateDirectory=", f"StateDirectory={escaped(state_dir.relative_to(STATE))}")
    yield from (f"ExecPaths={quoted(path)}" for path in homes())


def _problems(source: Path, config: dict[str, Any]) -> Iterator[Problem]:
    state_dir = Path(str(config.get("state-dir", "")))
    if not state_dir.is_relative_to(STATE) or state_dir == STATE:
        yield Problem("state-dir", f"must be below {STATE}, where the unit has its StateDirectory=, such as `{_STATE_DIR}`")
    for path in (source, *homes()):
        if hidden := next((folder for folder in HIDDEN if path.is_relative_to(folder)), None):
            yield Problem("", f"`{path}` is below `{hidden}`, of which the unit sees nothing")
    people, web = config.get("person", []), config.get("web", {})
    for number, person in enumerate(people if isinstance(people, list) else [], 1):
        file = person.get("token-file") if isinstance(person, dict) else None
        if isinstance(file, str) and not (source.parent / file).is_relative_to(state_dir):
            yield Problem(f"person.{number}.token-file", f"the cockpit's user makes it, so it must be in `{state_dir}`")
    if not isinstance(web, dict) or not all(isinstance(web.get(name, ""), str) for name in ("unix", "tcp")):
        yield Problem("web", "must be a table, its `unix` and `tcp` texts")
        return
    unix = web.get("unix")
    if web.get("tcp", "").endswith(":0"):
        yield Problem("web.tcp", "the unit's socket needs a port that is named, not 0")
    if isinstance(unix, str) and not any((source.parent / unix).is_relative_to(folder) for folder in (state_dir, _RUN_DIR)):
        yield Problem("web.unix", f"must be in `{_RUN_DIR}`, or in `{state_dir}`")
