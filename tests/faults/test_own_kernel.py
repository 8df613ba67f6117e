"""On a machine of its own: is what a daemon tells true when the clock is set back, the disk turns read-only, or breaks?

The machine is a User-Mode-Linux, a kernel as an ordinary process on this machine's files, so it needs no rights and hurts
nobody. Everything in it takes ten times as long.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults import clock_story
from tests.support.daemon import REPOSITORY

BOOT_S = 900.0  # it takes 40 s on an idle machine
DISK_BYTES = 256 * 1024 * 1024  # a few of them are written


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, node: Path) -> dict[str, Any]:
    """What was seen in there."""
    if shutil.which("linux.uml") is None or (format_ := shutil.which("mke2fs", path="/sbin:/usr/sbin")) is None:
        why = "there is no linux.uml on this machine (apt-get install user-mode-linux), or no mke2fs"
        pytest.skip(f"NOT TESTED HERE: a whole machine's clock set back, its disk read-only or broken: {why}")
    folder = tmp_path_factory.mktemp("uml")
    disk, init = folder / "disk", folder / "init"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run([format_, "-q", "-F", "-t", "ext4", str(disk)], check=True)
    environment = f"PATH={os.environ['PATH']}:/usr/sbin:/sbin PYTHONPATH={REPOSITORY} LANG=C.UTF-8 HOME=/mnt"
    init.write_text(f"#!/bin/sh\nexec env -i {environment} {sys.executable} -B -m tests.faults.own_kernel {node}\n")
    init.chmod(0o755)
    machine = ["mem=768M", "root=none", "rootfstype=hostfs", "ro", "con=null", "con0=fd:0,fd:1", "panic=-1", "quiet"]
    ran = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", "linux.uml", *machine, f"ubd0={disk}", f"init={init}", f"uml_dir={folder}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"TMPDIR": str(folder)},
        timeout=BOOT_S,
        check=False,
    )
    console = ran.stdout.decode(errors="replace")
    assert "RESULT " in console, console[-8000:]
    told: dict[str, Any] = json.loads(console.rpartition("RESULT ")[2].partition(" END")[0])
    return told


def part(found: dict[str, Any], name: str) -> dict[str, Any]:
    told: dict[str, Any] = found[name]
    assert "failed" not in told, told["failed"]
    return told


def test_a_clock_that_is_set_back_loses_reorders_and_delays_nothing_there(found: dict[str, Any]) -> None:
    clock_story.check(part(found, "clock"))


def test_a_file_system_that_turns_read_only_is_told_and_passes(found: dict[str, Any]) -> None:
    told = part(found, "read-only")

    assert told["told"][0] == 503
    assert told["told"][1] == "cannot write the store: its file system is read-only"
    assert told["refused"] == [503, "1"]
    assert told["read"] == "kept\r\n"
    assert told["after"] == [200, ""]
    assert (told["answered"], told["again"]) == ("COMPLETED", "COMPLETED")


def test_a_disk_that_breaks_is_told_and_what_was_acknowledged_is_there_when_it_works_again(found: dict[str, Any]) -> None:
    told = part(found, "broken")

    assert told["told"][0] == 503
    assert told["told"][1].startswith("cannot write the store: "), told
    assert told["refused"] == [503, "1"]
    assert told["kept"] == "kept\r\n"
    assert told["asked"] == "FAILED"  # its daemon died with it
    assert told["again"] == "COMPLETED"
