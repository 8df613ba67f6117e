"""One workspace a test, and a spawner for it: with a cgroup where there is one, and without."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandboxd.runner.client import Spawner, open_spawner
from tests.runner.workshop import NO_CGROUP, Workshop


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    root = tmp_path / "shop"
    policies = tmp_path / "policies"
    for folder in (root, root / "requests", policies):
        folder.mkdir()
    (root / "requests" / "one.json").write_text("{}")
    for script in ("runner.py", "runner.sh", "runner.mjs"):
        (root / script).write_text("")
    node = os.environ.get("SANDBOXD_NODE") or shutil.which("node") or "/usr/bin/node"
    return Workshop(root, policies, {"python": "/usr/bin/python3", "bash": "/bin/bash", "node": node})


@pytest.fixture
async def spawner(shop: Workshop) -> AsyncIterator[Spawner]:
    """Whatever this machine offers."""
    async with open_spawner(shop.setup()) as opened:
        yield opened


@pytest.fixture(params=["cgroup", "sweep"])
async def ending_spawner(shop: Workshop, request: pytest.FixtureRequest) -> AsyncIterator[Spawner]:
    """Both ways to end a tree."""
    async with open_spawner(shop.setup(cgroup=NO_CGROUP if request.param == "sweep" else None)) as opened:
        if request.param == "cgroup" and opened.no_cgroup:
            pytest.skip(f"NOT TESTED HERE: no cgroup can be made: {opened.no_cgroup}")
        yield opened
