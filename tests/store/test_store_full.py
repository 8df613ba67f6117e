"""Does a store on a full disk say so, keep what it acknowledged, and go on once there is room?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import trio

from sandboxd.store.sqlite import open_store


def test_a_disk_that_is_full_is_said_and_nothing_acknowledged_is_lost(tmp_path):
    path = tmp_path / "state" / "store.sqlite"
    command = [sys.executable, str(Path(__file__).with_name("full_writer.py")), str(path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)

    assert len(told["said"]) == 6
    assert all(text.startswith("cannot write the store: ") for text in told["said"]), told["said"]
    assert told["kept"] == told["later"] == [True] * 5
    assert trio.run(_seqs, path) == told["seqs"]


async def _seqs(path: Path) -> list[int]:
    async with open_store(path) as store:
        views = [await store.view(f"task-{number}") for number in range(5)]
        return [view.seq for view in views if view is not None]
