"""What the daemon may do by its unit, its tasks may not: capabilities are handed down to whatever is started."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.hostile.hostile_daemon import HostileDaemon
from tests.hostile.range import read_lines
from tests.support.daemon import output_of, state_of

# All capabilities there are, in a user namespace whose user is the same, and handed down as AmbientCapabilities= does it.
CAPABLE = ("unshare", "--map-current-user", "--keep-caps", "--")


class CapableDaemon(HostileDaemon):
    """It has capabilities, and hands them down."""

    def command(self) -> list[str]:
        return [*CAPABLE, *super().command()]


@pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED HERE: root has them anyway (scripts/as-tester)")
@pytest.mark.parametrize("level", ["none", "standard"])
def test_a_task_has_no_capability_of_the_daemon_s(tmp_path: Path, level: str):
    if shutil.which("unshare") is None or subprocess.run([*CAPABLE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED HERE: capabilities that are handed down (no user namespace for this user)")
    daemon = CapableDaemon(tmp_path, level)
    try:
        daemon.start()
    except AssertionError as error:
        if "isolation" in str(error):
            pytest.skip(f"NOT TESTED HERE: a daemon with capabilities at `{level}`: {str(error).strip().splitlines()[-1]}")
        raise
    try:
        given = Path(f"/proc/{daemon.pid}/status").read_text().partition("CapAmb:")[2].split()[0]
        task = daemon.send({"targets": {}, "only": ["capabilities_of_the_daemon"]})
    finally:
        daemon.end()

    assert int(given, 16)
    assert state_of(task) == "COMPLETED", task["status"]
    assert read_lines(output_of(task))[0] == {"attack": "capabilities_of_the_daemon", "error": "nothing"}
