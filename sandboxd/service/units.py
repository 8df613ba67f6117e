"""Which unit files does this machine's config need?

The units themselves are shipped as they are (`systemd/`). What depends on the config goes into a drop-in beside each: where
sandboxd is installed, which folders the policies let tasks write, which sockets and credentials there are. A config that would
not work in the unit, or would in silence do less than it says, is refused with every reason at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from sandboxd import packs
from sandboxd.config import DEFAULT_PATH, Config, Instance
from sandboxd.errors import LoadError, Problem
from sandboxd.policy.load import load_policy
from sandboxd.policy.model import Policy
from sandboxd.runner.isolation import landlock
from sandboxd.runner.isolation.levels import STANDARD_LEAST_ABI
from sandboxd.service.credentials import named
from sandboxd.values import frozen

UNITS: Final = Path("etc/systemd/system")
DROP_IN: Final = "10-config.conf"
BUBBLEWRAP: Final = UNITS / "sandboxd.service.d/20-bubblewrap.conf"
CREDENTIALS: Final = Path("/etc/sandboxd/credentials")
COURIER_SOCKET: Final = "/run/sandboxd-courier/courier.sock"
STATE: Final = Path("/var/lib")
HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - nothing is written there: ProtectHome= and PrivateTmp= hide them
_FIXED_EXEC: Final = Path("/usr")


@frozen
class UnitFile:
    """A file below the root of the system that it is for."""

    path: Path
    text: str = attrs.field(repr=False)


def needs_bubblewrap(config: Config) -> bool:
    """Whether runs will be put into bubblewrap on this host; `LoadError`."""
    levels = {config.isolation.level, *(policy.isolation.level for _, policy in _policies(config))}
    return "strict" in levels or ("standard" in levels and _landlock_abi() < STANDARD_LEAST_ABI)


def unit_files(config: Config, *, bubblewrap: bool) -> tuple[UnitFile, ...]:
    """Every file, for the sandboxd that runs here; `LoadError` names all that would not work in a unit.

    `bubblewrap`: whether the unit has to let it work.
    """
    writable = _writable(config)
    if problems := list(_problems(config, writable)):
        raise LoadError(str(config.source or DEFAULT_PATH), problems)
    sockets = ["sandboxd-tcp.socket"] if config.listen.tcp else []
    sockets += ["sandboxd-courier.socket"] if _has_courier(config) else []
    files = [
        UnitFile(Path("etc/sysusers.d/sandboxd.conf"), shipped_text("sysusers.conf")),
        UnitFile(Path("etc/tmpfiles.d/sandboxd.conf"), shipped_text("tmpfiles.conf")),
        *with_drop_in("sandboxd.service", _service(config, sockets, writable)),
        *with_drop_in("sandboxd.socket", _socket(str(config.listen.unix))),
    ]
    if config.listen.tcp:
        files += with_drop_in("sandboxd-tcp.socket", _socket(str(config.listen.tcp)))
    if _has_courier(config):
        files.append(UnitFile(UNITS / "sandboxd-courier.socket", shipped_text("sandboxd-courier.socket")))
        files += with_drop_in("sandboxd-courier.service", _courier())
    if bubblewrap:
        files.append(UnitFile(BUBBLEWRAP, shipped_text("sandboxd-bubblewrap.conf")))
    return tuple(files)


def optional_files() -> tuple[Path, ...]:
    """Files of ours that some configs need and others do not: where one is too many, it has drifted."""
    names = ("sandboxd-tcp.socket", "sandboxd-courier.socket", "sandboxd-courier.service")
    return (BUBBLEWRAP, *(path for name in names for path in (UNITS / name, UNITS / f"{name}.d" / DROP_IN)))


def _has_courier(config: Config) -> bool:
    return config.push.enabled and config.push.courier == "unit"


def with_drop_in(name: str, drop_in: Iterable[str]) -> list[UnitFile]:
    """A shipped unit, and what this machine's config adds to it."""
    text = "\n".join(
        ["# Written by `sandboxd install-units`, and written anew by it: own changes go into `systemctl edit`.", *drop_in]
    )
    return [UnitFile(UNITS / name, shipped_text(name)), UnitFile(UNITS / f"{name}.d" / DROP_IN, text + "\n")]


def shipped_text(name: str) -> str:
    """A file of `systemd/`."""
    return (packs.shipped("systemd") / name).read_text()


def _service(config: Config, sockets: Sequence[str], writable: Sequence[Path]) -> Iterator[str]:
    if sockets:
        yield from ("", "[Unit]", f"Requires={' '.join(sockets)}", f"After={' '.join(sockets)}")
        if _has_courier(config):
            yield "Wants=sandboxd-courier.service"
    source = (config.source or DEFAULT_PATH).absolute()
    at = "" if source == DEFAULT_PATH else f" --config {quoted(source)}"
    yield from ("", "[Service]", "ExecStart=", f"ExecStart={quoted(command())} serve{at}")
    yield from ("ExecReload=", f"ExecReload={quoted(command())} check reload{at}", "ExecReload=/bin/kill -HUP $MAINPID")
    if config.state_dir != STATE / "sandboxd":
        yield from ("StateDirectory=", f"StateDirectory={escaped(config.state_dir.relative_to(STATE))}")
    yield from (f"ReadWritePaths={quoted(path)}" for path in writable)
    # A writable folder is a mount of its own and would stay executable (systemd 252).
    yield from (f"NoExecPaths={quoted(path)}" for path in (*writable, config.state_dir))
    yield from (f"ExecPaths={quoted(path)}" for path in _executable(config))
    yield from (f"LoadCredential={name}:{escaped(CREDENTIALS / name)}" for name in sorted(named(config)))


def _courier() -> Iterator[str]:
    yield from ("", "[Service]", "ExecStart=", f"ExecStart={quoted(command())} courier --socket {COURIER_SOCKET}")
    yield from (f"ExecPaths={quoted(path)}" for path in homes())


def _socket(address: str) -> Iterator[str]:
    yield from ("", "[Socket]", "ListenStream=", f"ListenStream={escaped(address)}")


def _problems(config: Config, writable: Iterable[Path]) -> Iterator[Problem]:
    if config.listen.unix is None:
        yield Problem("listen.unix", "is missing: the command line of this machine comes in there")
    if config.listen.tcp is not None and config.listen.tcp.port == 0:
        yield Problem("listen.tcp", "the unit's socket needs a port that is named, not 0")
    if config.push.enabled and config.push.courier == "child":
        why = 'the unit has no network, so a child of it reaches nobody: say courier = "unit", or enabled = false'
        yield Problem("push.courier", why)
    if config.state_dir == STATE or not config.state_dir.is_relative_to(STATE):
        yield Problem("state_dir", f"`{config.state_dir}` must be below {STATE}, where the unit has its StateDirectory=")
    if config.tck is not None:
        yield Problem("tck.profile", "is for a test, not for a service")
    seen = [(f"instance.{instance.id}.root", instance.root) for instance in config.instances]
    seen += [(f"programs.{name}", Path(program)) for name, program in config.programs.items()]
    seen += [("isolation.read", path) for path in config.isolation.read]
    seen += [("", home) for home in homes()]
    for key, path in seen:
        if hidden := next((folder for folder in HIDDEN if path.resolve().is_relative_to(folder)), None):
            yield Problem(key, f"`{path}` is below `{hidden}`, of which the unit sees nothing")
    for path in writable:
        if not path.is_dir():
            yield Problem(
                "instance", f"`{path}`, which a policy lets tasks write, is no folder: make it, or the unit cannot start"
            )


def _writable(config: Config) -> tuple[Path, ...]:
    """The folders that the policies let tasks write; nothing else of a workspace can be written in the unit."""
    found = {instance.root / folder for instance, policy in _policies(config) for folder in policy.isolation.writable or ()}
    return tuple(sorted(path.resolve() for path in found))


def _policies(config: Config) -> Iterator[tuple[Instance, Policy]]:
    for instance in config.instances:
        for name in instance.policies:
            file = packs.read(name)
            yield instance, load_policy(str(name), file.text, file.digest)


def _landlock_abi() -> int:
    try:
        return landlock.abi()
    except OSError:
        return 0


def _executable(config: Config) -> tuple[Path, ...]:
    """What must be executable beside /usr: this Python, sandboxd, the programs with the libraries beside them, and what runs
    may read of this host.
    """
    programs = [Path(program).resolve() for program in config.programs.values()]
    found = {program.parent.parent if program.parent.name == "bin" else program for program in programs}
    found |= {*homes(), *(path.resolve() for path in config.isolation.read)}
    return tuple(sorted(path for path in found if not path.is_relative_to(_FIXED_EXEC)))


def homes() -> tuple[Path, ...]:
    """Where sandboxd and its Python are installed."""
    return tuple(sorted({home for home in map(Path, (sys.prefix, sys.base_prefix)) if not home.is_relative_to(_FIXED_EXEC)}))


def command() -> Path:
    """The command of the sandboxd that runs here."""
    return Path(sys.prefix) / "bin/sandboxd"


def escaped(text: str | Path) -> str:
    """As a value of a unit file."""
    return str(text).replace("%", "%%")  # systemd.unit(5), specifiers


def quoted(path: Path) -> str:
    """As one word of a unit file (systemd.syntax(7))."""
    text = escaped(path)
    if all(char.isalnum() or char in "/._-+@:,=%" for char in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$") + '"'
