"""How is the courier started where it is no child of the daemon?"""

from __future__ import annotations

from pathlib import Path

import click

from sandboxd import logs
from sandboxd.cli.exits import Exit, Failure
from sandboxd.cli.settings import read_config
from sandboxd.config_push import SOCKET_NAME
from sandboxd.courier.process import serve_unix


@click.command()
@click.option("--config", "file", metavar="FILE", envvar="SANDBOXD_CONFIG", default="", help="Which config [SANDBOXD_CONFIG].")
@click.option("--socket", metavar="PATH", default="", help="Where the daemon is met; then no config is read.")
def courier(*, file: str, socket: str) -> int:
    """Send the daemon's push notifications until it hangs up, then end (status 1: to be started anew).

    For a config with `courier = "unit"` in `[push]`: the daemon then connects to nothing itself.
    """
    logs.configure()
    path = Path(socket) if socket else _of_config(file)
    try:
        serve_unix(path)
    except OSError as error:
        raise Failure(f"cannot reach the daemon at `{path}`: {error.strerror or error}", Exit.UNREACHABLE) from error
    return Exit.OTHER


def _of_config(file: str) -> Path:
    config = read_config(file)
    if config.push.courier != "unit":
        raise Failure("cannot be the courier: the daemon has one", Exit.OTHER, hint='say `courier = "unit"` in `[push]`')
    return config.state_dir / SOCKET_NAME
