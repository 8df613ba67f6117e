"""How is the daemon started?"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from sandboxd import startup


@click.command()
@click.option(
    "--config", "config", type=click.Path(path_type=Path), envvar="SANDBOXD_CONFIG", help="The config [SANDBOXD_CONFIG]."
)
def serve(config: Path | None) -> int:
    """Run the daemon until it is told to stop (SIGTERM, or Ctrl-C)."""
    code = startup.main(config)
    # All is closed by now. The interpreter would take its modules apart first, which costs more CPU (0.3 s) than a whole stop.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
