"""How long does a start take in a process of that size?  `python -m benchmarks.fat FOLDER MEGABYTES`

For each line that is read, the median over some starts is printed, in milliseconds: from the call to the process that runs.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path

import trio

from benchmarks.result import percentile
from sandboxd.policy.adapter import AdapterCommand
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.process import Process
from sandboxd.runner.protocol import InstanceSetup, RunRequest, SpawnerSetup

_POLICY = """
format = 1
adapter = "bench"
[command]
program = "python3"
argv = ["python3", "{script}"]
[command.env]
PATH = "/usr/bin:/bin"
[hole.mode]
one-of = ["plan"]
[hole.script]
path-under = ["."]
"""
STARTS = 10


async def _start_ms(spawner: Spawner) -> float:
    command = AdapterCommand("bench", "plan", ("python3", "nothing.py"), timeout_s=30, text_line=True)
    began = time.monotonic()
    process = await spawner.start(RunRequest(str(uuid.uuid4()), "context", "bench", command, "go"))
    took_ms = (time.monotonic() - began) * 1e3
    if not isinstance(process, Process):
        raise RuntimeError(f"nothing was started: {process}")
    await process.wait()
    await process.end_tree()
    process.close()
    return took_ms


def _fill(megabytes: int) -> list[bytes]:
    """Objects of a kilobyte, as a daemon with much on its mind has them, until the process is that large."""
    page, held = os.sysconf("SC_PAGE_SIZE"), []
    while int(Path("/proc/self/statm").read_text().split()[1]) * page < megabytes * 1_000_000:
        held += [os.urandom(1000) for _ in range(1000)]
    return held


async def main(folder: Path, megabytes: int) -> None:
    """Answer each line with a figure."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "nothing.py").touch()
    policy = folder / "bench.toml"
    policy.write_text(_POLICY)
    policy.chmod(0o644)
    setup = SpawnerSetup((InstanceSetup("bench", str(workspace), policies=(str(policy),)),), {"python3": "/usr/bin/python3"})
    async with open_spawner(setup) as spawner:
        held = _fill(megabytes)
        await _start_ms(spawner)
        while await trio.to_thread.run_sync(sys.stdin.readline):
            print(percentile([await _start_ms(spawner) for _ in range(STARTS)], 50), flush=True)
        del held


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
