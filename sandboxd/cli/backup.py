"""How is the store copied, while the daemon runs?"""

from __future__ import annotations

from pathlib import Path

import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.options import json_option
from sandboxd.cli.settings import is_there, read_config
from sandboxd.store.backup import back_up
from sandboxd.store.base import StoreUnavailable
from sandboxd.store.schema import STORE_NAME


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--config", default="", envvar="SANDBOXD_CONFIG", help="Which config [SANDBOXD_CONFIG]; else the system's.")
@json_option
def backup(*, file: Path, config: str, as_json: bool) -> None:
    """Copy the store to FILE, which must not be there, while the daemon runs or not; the copy is checked whole.

    To restore one: docs/backup.md.
    """
    console = Console.of_process()
    store = read_config(config).state_dir / STORE_NAME
    if not is_there(store):
        raise Failure(f"cannot copy the store `{store}`: no such file", Exit.NOT_FOUND)
    try:
        copied = back_up(store, file)
    except StoreUnavailable as error:
        raise Failure(str(error)) from error
    if as_json:
        told = {"file": str(file.absolute()), "bytes": copied.size_bytes, "schema_version": copied.version}
        console.object({"schema": "sandboxd.backup/1", **told})
        return
    console.say(f"copied the store to {file}: {copied.size_bytes} bytes, checked whole")
