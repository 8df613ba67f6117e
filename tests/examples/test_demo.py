"""Does `make demo` show the main job to its end, also where nobody is at a terminal?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.daemon import processes_with, wait_until


def test_the_demo_ends_by_itself_with_a_link_to_the_cockpit(repository: Path, node: Path, tmp_path: Path) -> None:
    argv = [sys.executable, str(repository / "examples" / "demo.py")]
    env = {**os.environ, "SANDBOXD_NODE": str(node), "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False, env=env)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "/#/q/1" in done.stdout
    assert "The question is closed: responded (you by api)" in done.stdout
    # Helpers of both end when the process that they served is gone, a moment after it.
    wait_until(lambda: not processes_with(str(tmp_path)), timeout_s=30, what="the end of all that the demo started")
