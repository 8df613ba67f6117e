"""A workspace with real programs in it, and ways to look at what they became from outside."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

from sandboxd.policy.adapter import AdapterCommand
from sandboxd.runner.process import ExitStatus, Process
from sandboxd.runner.protocol import InstanceSetup, RunRequest, SpawnerSetup, to_json

# A daemon, as far as the runner is concerned: one run, and then it waits.
_DAEMON = """
import json, sys, trio
from sandboxd.runner.client import open_spawner
from sandboxd.runner.protocol import request_from_json, setup_from_json

async def main():
    setup, request = json.loads(sys.stdin.read())
    async with open_spawner(setup_from_json(setup)) as spawner:
        process = await spawner.start(request_from_json(request))
        print(spawner.pid, process.pid, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""
_REPOSITORY = Path(__file__).resolve().parents[2]
NO_CGROUP = "/nonexistent"  # what a setup names to get the sweep, also where a cgroup could be had

POLICY = """
format = 1
adapter = "{adapter}"

[command]
program = "{adapter}"
argv = ["{adapter}", "{script}", "--request", "{{request}}"]
runner = "{script}"
terminal = "{terminal}"

[command.env]
PATH = "/usr/bin:/bin"
MODE = "{{mode}}"

[hole.mode]
one-of = ["plan", "assess"]

[hole.request]
path-under = ["requests"]
hand-over = "{hand_over}"

[limits]
{limits}

[isolation]
{isolation}
"""


@attrs.define
class Workshop:
    """One instance, `shop`, with the adapters `python` and `bash`; each runs the script of its name."""

    root: Path
    policies: Path
    programs: dict[str, str]
    limits: str = 'open-files = 256\ntimeout = { default = "1m", max = "1m" }'
    terminal: str = "text-line"
    isolation: str = ""
    hand_over: str = "path"

    def setup(self, *, cgroup: str | None = None) -> SpawnerSetup:
        for adapter, script in (("python", "runner.py"), ("bash", "runner.sh"), ("node", "runner.mjs")):
            path = self.policies / f"{adapter}.toml"
            path.write_text(
                POLICY.format(
                    adapter=adapter,
                    script=script,
                    terminal=self.terminal,
                    limits=self.limits,
                    isolation=self.isolation,
                    hand_over=self.hand_over,
                )
            )
            path.chmod(0o644)
        policies = tuple(str(path) for path in sorted(self.policies.iterdir()))
        cgroup = cgroup or os.environ.get("SANDBOXD_TEST_CGROUP")
        return SpawnerSetup((InstanceSetup("shop", str(self.root), policies=policies),), self.programs, cgroup=cgroup)

    def write(self, text: str, script: str = "runner.py") -> None:
        (self.root / script).write_text(text)

    def request(
        self,
        adapter: str = "python",
        *,
        terminal: bool = False,
        request: str = "requests/one.json",
        task_id: str = "task-1",
        text: str = "",
    ) -> RunRequest:
        script = {"python": "runner.py", "bash": "runner.sh", "node": "runner.mjs"}[adapter]
        command = AdapterCommand(adapter, "plan", (adapter, script, "--request", request), text_line=terminal)
        return RunRequest(task_id, "context-1", "shop", command, text)

    def alive(self) -> set[int]:
        """Processes that stand in this workspace, as /proc has it."""
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if (entry / "cwd").readlink().is_relative_to(self.root):
                        found.add(int(entry.name))
        return found

    async def wait_gone(self, seconds: float = 3.0) -> set[int]:
        """Who is still there after that time; returns at once when nobody is."""
        await trio.to_thread.run_sync(wait_until, lambda: not self.alive(), seconds)
        return self.alive()

    async def wait_for(self, name: str, seconds: float = 10.0) -> Path:
        """A file that a run makes when it is so far."""
        path = self.root / name
        assert await trio.to_thread.run_sync(wait_until, path.exists, seconds), f"{name} did not appear"
        return path


def start_daemon(setup: SpawnerSetup, request: RunRequest) -> tuple[subprocess.Popen[str], int]:
    """A process of its own with one run, to be killed; with the pid of its spawner."""
    daemon = subprocess.Popen(
        [sys.executable, "-c", _DAEMON],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        text=True,
    )
    assert daemon.stdin is not None and daemon.stdout is not None
    daemon.stdin.write(json.dumps([to_json(setup), to_json(request)]))
    daemon.stdin.close()
    return daemon, int(daemon.stdout.readline().split()[0])


async def read_all(fd: int) -> bytes:
    """Everything up to the end: EOF of a pipe, EIO of a terminal."""
    data = b""
    while True:
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(fd)
            continue
        except OSError:
            return data
        if not chunk:
            return data
        data += chunk


async def read_until(fd: int, wanted: bytes) -> bytes:
    data = b""
    with trio.fail_after(10):
        while wanted not in data:
            await trio.lowlevel.wait_readable(fd)
            data += os.read(fd, 65536)
    return data


async def output(process: object) -> tuple[bytes, bytes]:
    """Both streams of a run to their end, or what its terminal showed."""
    assert isinstance(process, Process), process
    found: dict[str, bytes] = {"stderr": b""}

    async def read(name: str, fd: int) -> None:
        found[name] = await read_all(fd)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            if process.terminal_fd is not None:
                nursery.start_soon(read, "stdout", process.terminal_fd)
            else:
                assert process.stdout_fd is not None and process.stderr_fd is not None
                nursery.start_soon(read, "stdout", process.stdout_fd)
                nursery.start_soon(read, "stderr", process.stderr_fd)
    return found["stdout"], found["stderr"]


async def finish(process: object) -> tuple[ExitStatus, bytes, bytes]:
    """Run to its end: how it ended, and its two outputs."""
    assert isinstance(process, Process), process
    out, err = await output(process)
    with trio.fail_after(10):
        status = await process.wait()
        assert await process.end_tree() == ()
    process.close()
    return status, out, err


def open_descriptors() -> list[str]:
    """The numbers of this process's descriptors."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def count_descriptors(pid: int) -> int:
    """How many descriptors another process has, also where it does not let itself be looked into."""
    count = Path(f"/proc/{pid}/fd").stat().st_size
    if count == 0:
        pytest.skip("NOT TESTED HERE: descriptors of the spawner: a kernel before 6.2 does not tell how many there are")
    return count


def started(process: object) -> Process:
    assert isinstance(process, Process), process
    return process


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """For tests without a loop: whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
