"""How is the daemon started?"""

from __future__ import annotations

from pathlib import Path

import click

from sandboxd import daemon


@click.command()
@click.option(
    "--config", "config", type=click.Path(path_type=Path), envvar="SANDBOXD_CONFIG", help="The config [SANDBOXD_CONFIG]."
)
def serve(config: Path | None) -> int:
    """Run the daemon until it is told to stop (SIGTERM, or Ctrl-C)."""
    return daemon.main(config)
