"""How is a cockpit started?"""

from __future__ import annotations

from pathlib import Path

import click

from sandboxd.cockpit import serve


@click.command()
@click.option(
    "--config", "config", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The cockpit's config."
)
def cockpit(config: Path) -> int:
    """Gather the questions of several hosts, answer those that a rule answers, keep the others for people.

    Runs until it is told to stop (SIGTERM, or Ctrl-C). What it did: sandboxd audit --cockpit DIR.
    """
    return serve.main(config)
