"""How does sandboxd become a service of this machine?"""

from __future__ import annotations

from pathlib import Path

import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure, of_load_error
from sandboxd.cli.options import json_option
from sandboxd.cli.settings import read_config
from sandboxd.errors import LoadError
from sandboxd.service.cockpit_units import DEFAULT_PATH, SERVICE, cockpit_files, optional_cockpit_files
from sandboxd.service.install import drift, files_for, install
from sandboxd.service.units import optional_files


@click.command("install-units")
@click.option("--config", "file", metavar="FILE", envvar="SANDBOXD_CONFIG", default="", help="Which config [SANDBOXD_CONFIG].")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path("/"),
    show_default=True,
    help="The root of the system that they are for.",
)
@click.option("--check", "is_check", is_flag=True, help="Change nothing; 1 when something would change.")
@click.option(
    "--bubblewrap/--no-bubblewrap",
    "bubblewrap",
    default=None,
    help="Whether the unit lets bubblewrap work; else where config or policies need it, and where it does already.",
)
@click.option(
    "--cockpit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"The units of a cockpit instead, for its config, such as {DEFAULT_PATH}.",
)
@json_option
def install_units(
    *, file: str, root: Path, is_check: bool, bubblewrap: bool | None, cockpit: Path | None, as_json: bool
) -> int:
    """Write the systemd units that the config needs, or say how those that are there differ.

    A policy or instance that is new may need a new unit: run it again then, and restart sandboxd.
    """
    console = Console.of_process()
    try:
        files = cockpit_files(cockpit) if cockpit else files_for(read_config(file), root, bubblewrap=bubblewrap)
    except LoadError as error:
        raise of_load_error(error) from error
    surplus = optional_cockpit_files() if cockpit else optional_files()
    if is_check:
        found = drift(files, root, surplus)
        if as_json:
            changes = [{"path": str(one.path), "why": one.why, "diff": list(one.lines)} for one in found]
            console.object({"schema": "sandboxd.units/1", "ok": not found, "drift": changes})
        else:
            for one in found:
                console.say("\n".join([f"{one.path} {one.why}", *(f"    {line}" for line in one.lines[2:])]))
        return Exit.OTHER if found else Exit.DONE
    try:
        changed = install(files, root, surplus)
    except OSError as error:
        raise Failure(f"cannot write `{error.filename}`: {(error.strerror or str(error)).lower()}", Exit.OTHER) from error
    if as_json:
        console.object({"schema": "sandboxd.units/1", "changed": [str(path) for path in changed]})
        return Exit.DONE
    console.say("\n".join(str(path) for path in changed) or "every unit is as the config needs it")
    if changed and root == Path("/"):
        console.talk("next: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload")
        names = [file.path.name for file in files if file.path.suffix == ".socket"]
        names.append(SERVICE if cockpit else "sandboxd.service")
        console.talk(f"      systemctl enable --now {' '.join(names)}")
    return Exit.DONE
