"""What does a config look like, and what does this one come to?"""

from __future__ import annotations

import json
import os
from typing import Final

import click

from sandboxd.cli.console import Console
from sandboxd.cli.groups import Group
from sandboxd.cli.options import json_option
from sandboxd.cli.programs import find_program
from sandboxd.cli.settings import read_config
from sandboxd.config import config_text_init, to_json, to_toml

USUAL_NODE: Final = "/usr/bin/node"  # what the commented config says


@click.group(cls=Group)
def config() -> None:
    """Write a first config, or show what one comes to."""


@config.command()
def init() -> None:
    """Print a commented config to begin with; `node` is the one that is found here.

    \b
    sandboxd config init > sandboxd.toml
    """
    click.echo(first_config("" if os.access(USUAL_NODE, os.X_OK) else find_program("node")), nl=False)


@config.command()
@click.option("--config", "file", metavar="FILE", envvar="SANDBOXD_CONFIG", default="", help="Which config [SANDBOXD_CONFIG].")
@json_option
def show(file: str, as_json: bool) -> None:
    """Show every setting in effect, defaults included. Paths of token files are shown, tokens never."""
    console, settings = Console.of_process(), read_config(file)
    if as_json:
        console.object({"schema": "sandboxd.config/1", "source": str(settings.source), "config": to_json(settings)})
        return
    console.talk(f"# from {settings.source}")
    console.say(to_toml(settings).rstrip("\n"))


def first_config(node: str) -> str:
    """The commented config, naming that Node; empty: the usual one."""
    named = f"node = {json.dumps(node or USUAL_NODE, ensure_ascii=False)}"
    return config_text_init().replace(f"node = {json.dumps(USUAL_NODE)}", named)
