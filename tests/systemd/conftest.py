"""What systemd says of units that were installed into a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxd.service.units import UNITS


@pytest.fixture
def analyze() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`systemd-analyze` on units of a folder alone, with the drop-ins beside them."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED HERE: what systemd says of the units: there is no systemd-analyze on this machine")

    def run(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
        folder = root / UNITS
        return subprocess.run(
            ["systemd-analyze", *argv],
            cwd=folder,
            env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:/lib/systemd/system:/usr/lib/systemd/system"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run
