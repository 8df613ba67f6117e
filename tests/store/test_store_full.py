"""Does a store on a full disk say so, keep what it acknowledged, and go on once there is room?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

IN_NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--"]


def write_until_full(path: Path, before: list[str], *more: str) -> dict[str, Any]:
    command = [*before, sys.executable, str(Path(__file__).with_name("full_writer.py")), str(path), *more]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def check(told: dict[str, Any]) -> None:
    assert len(told["said"]) == 6
    assert all(text.startswith("cannot write the store: ") for text in told["said"]), told["said"]
    assert told["kept"] == told["later"] == told["reopened"] == [True] * 5


def test_files_that_may_not_grow_are_said_and_nothing_acknowledged_is_lost(tmp_path):
    check(write_until_full(tmp_path / "state" / "store.sqlite", []))


def test_a_file_system_that_is_full_is_said_and_nothing_acknowledged_is_lost(tmp_path):
    probe = subprocess.run([*IN_NAMESPACES, "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"NOT TESTED HERE: a file system that is full (no mount of our own: {probe.stderr.decode().strip()})")
    told = write_until_full(tmp_path / "state" / "store.sqlite", IN_NAMESPACES, "tmpfs")

    check(told)
    assert any("disk is full (SQLITE_FULL)" in text for text in told["said"])
