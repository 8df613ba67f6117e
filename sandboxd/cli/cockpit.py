"""How is a cockpit started?"""

from __future__ import annotations

from pathlib import Path

import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Exit, of_load_error
from sandboxd.cockpit import serve
from sandboxd.cockpit.config import load_config
from sandboxd.errors import LoadError


@click.command()
@click.option(
    "--config", "config", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The cockpit's config."
)
@click.option("--check", "is_check", is_flag=True, help="Read the config and what it names, say what is wrong, and end.")
def cockpit(config: Path, is_check: bool) -> int:
    """Gather the questions of several hosts, answer those that a rule answers, keep the others for people.

    Runs until it is told to stop (SIGTERM, or Ctrl-C); as a service it reads its people and rules anew on SIGHUP. What it did:
    sandboxd audit --cockpit DIR.
    """
    if not is_check:
        return serve.main(config)
    try:
        found = load_config(config)
    except LoadError as error:
        raise of_load_error(error) from error
    people, rules = len(found.people.everybody), len(found.rules.rules)
    Console.of_process().talk(f"`{config}` can be used: {len(found.hosts)} hosts, {people} persons, {rules} rules.")
    return Exit.DONE
