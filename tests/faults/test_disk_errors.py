"""Does a daemon whose disk fails under it say so, keep what it told, and go on once the disk works again?

The errors are the kernel's own answers to the daemon's own calls (`faulty_disk`). A file system that really turns read-only,
and one that is really broken, are tried in `test_own_kernel.py`.
"""

from __future__ import annotations

import errno
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.faulty_disk import Disk
from tests.faults.test_store_daemon import readiness
from tests.support.daemon import Daemon, outcome_of, output_of, processes_with, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]
FAULTS = {"read-only": errno.EROFS, "I/O error": errno.EIO}  # a full one: `test_full_disk.py`


class DaemonOnDisk(Daemon):
    """One whose disk can be made to fail."""

    disk: Disk

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.faults.faulty_disk", str(self.disk.place), *super().command()]

    def launch(self) -> None:
        super().launch()
        assert self.process is not None
        self.disk.answer(self.process.pid)


@pytest.fixture
def on_disk(tmp_path: Path, node: Path) -> Iterator[DaemonOnDisk]:
    if platform.machine() != "x86_64":
        pytest.skip("NOT TESTED HERE: a disk that fails (only the calls of x86_64 are known)")
    daemon = DaemonOnDisk(tmp_path, str(node))
    daemon.disk = Disk(tmp_path / "disk.sock")
    daemon.start()
    yield daemon
    daemon.disk.error = 0
    daemon.end()
    daemon.disk.close()


@pytest.mark.parametrize("name", FAULTS)
def test_a_disk_that_fails_is_told_with_its_reason_and_nothing_told_is_lost(on_disk: DaemonOnDisk, name: str):
    daemon = on_disk
    kept = daemon.run([["print", "kept\n"]])
    asked = daemon.run([ASK])
    late = daemon.run([["print", "up\n"], ["hang"]], wait=False, timeout_seconds=3)
    wait_until(lambda: processes_with(late["id"]), what="the command")
    with ThreadPoolExecutor(1) as pool:
        daemon.disk.error = FAULTS[name]
        status, why = wait_until(lambda: found if (found := readiness(daemon))[0] != 200 else None)
        with daemon.client() as client:
            refused = client.post("/message:send", json=daemon.message(text="echo"))
        read = daemon.get(kept["id"])
        answer = pool.submit(daemon.answer, asked, "y")
        wait_until(lambda: not processes_with(late["id"]), timeout_s=30, what="the end by the deadline")
        seen = [state_of(daemon.get(task["id"])) for task in (asked, late)]
        was_told = answer.done()
        daemon.disk.error = 0
        accepted = answer.result()
    after = wait_until(lambda: found if (found := readiness(daemon))[0] == 200 else None)

    assert status == 503
    assert why.startswith("cannot write the store: "), why
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert output_of(read) == "kept\r\n"
    assert (seen, was_told) == (["INPUT_REQUIRED", "WORKING"], False)  # nothing is told that is not on the disk
    assert accepted.status_code == 200, accepted.text
    assert after == (200, "")
    assert state_of(daemon.until(asked["id"], "COMPLETED")) == "COMPLETED"
    assert outcome_of(daemon.until(late["id"], "FAILED"))["reason"] == "timeout"
    daemon.kill()
    daemon.start()
    assert state_of(daemon.get(asked["id"])) == "COMPLETED"
    assert output_of(daemon.get(asked["id"])).count("answer: ") == 1
    assert output_of(daemon.get(kept["id"])) == "kept\r\n"


def test_a_store_on_a_read_only_file_system_is_refused_by_name_and_left_as_it_is(daemon: Daemon):
    kept = daemon.run([["print", "kept\n"]])
    daemon.stop()
    mounts = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(daemon.store.parent), str(daemon.store.parent)]
    try:
        probe = subprocess.run([*mounts, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("NOT TESTED HERE: a read-only file system at the start (no bubblewrap)")
    if probe.returncode:
        pytest.skip(f"NOT TESTED HERE: a read-only file system at the start ({probe.stderr.strip()})")
    refused = subprocess.run([*mounts, *daemon.command()], capture_output=True, text=True, timeout=60, check=False)
    daemon.start()

    assert refused.returncode == 1
    assert "Read-only file system: `" in refused.stderr
    assert output_of(daemon.get(kept["id"])) == "kept\r\n"
