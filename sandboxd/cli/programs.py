"""Where does the person at this terminal find a program?

For a first config, and for a run without one. The daemon never searches: its config names every program.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def find_program(name: str) -> str:
    """The absolute path of that program, on PATH or else beside this Python; empty: nowhere."""
    # Where a machine has no Node, `make demo` puts one into the environment that sandboxd itself is in.
    places = (os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent))
    found = shutil.which(name, path=os.pathsep.join(places))
    return str(Path(found).absolute()) if found else ""
