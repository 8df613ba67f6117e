"""How does `python -m sandboxd` start? As the command does."""

from __future__ import annotations

import sys

from sandboxd.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
