"""Does the daemon pass the conformance harness, at every door, with real processes and real restarts?"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxd.conformance.run import known_ids
from tests.support.daemon import REPOSITORY, Daemon

TRIALS = 50  # CF-4
CALL = """import socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect(sys.argv[1])
    sys.exit(to.recv(1) != b"+")
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Daemon]:
    """A daemon with the example workspace, at a port that it keeps over restarts."""
    daemon = Daemon(tmp_path_factory.mktemp("target"), str(node))
    shutil.copytree(REPOSITORY / "examples" / "workspace", daemon.workspace, dirs_exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    daemon.config.write_text(daemon.config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
    daemon.start()
    (daemon.folder / "token").write_text(daemon.token)
    yield daemon
    daemon.end()


@pytest.fixture
def restarter(target: Daemon) -> Iterator[str]:
    """A command that kills the daemon with SIGKILL, starts it again, and ends when that is done."""

    class Restart(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            target.kill()
            target.start()
            self.request.sendall(b"+")

    path = str(target.folder / "restart.sock")
    with socketserver.UnixStreamServer(path, Restart) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield shlex.join([sys.executable, "-c", CALL, path])
        server.shutdown()
        thread.join()


def run(target: Daemon, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "sandboxd", "conformance", target.url, "--token-file", str(target.folder / "token"), *options]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)


def test_every_scenario_passes(target: Daemon, restarter: str, record_testsuite_property: Any) -> None:
    options = ("--door", "rest", "--version", "1.0", "--restart-cmd", restarter, "--trials", str(TRIALS))

    done = run(target, *options, "--report", "json")

    report = json.loads(done.stdout)
    (measured,) = [result["figures"] for result in report["results"] if result["scenario"] == "CF-4"]
    record_testsuite_property("resume_p95_ms", measured["resume_p95_ms"])
    assert [result for result in report["results"] if result["verdict"] != "pass"] == []
    assert [result["scenario"] for result in report["results"]] == list(known_ids())
    assert measured["resume_trials"] == TRIALS
    assert measured["resume_p95_ms"] <= 1000
    assert done.returncode == report["exit"] == 0


def test_every_door_passes_what_is_quickly_judged(target: Daemon) -> None:
    only = [word for pattern in ("CF-[12356]", "HP", "AC", "IDEM-AC-[123]") for word in ("--only", pattern)]

    done = run(target, *only, "--report", "json")

    report = json.loads(done.stdout)
    assert [result for result in report["results"] if result["verdict"] != "pass"] == []
    assert report["doors"] == ["jsonrpc 1.0", "rest 1.0", "jsonrpc 0.3", "rest 0.3", "dialect 0.3"]
    assert done.returncode == report["exit"] == 0


def test_a_request_of_ones_own_can_be_driven(target: Daemon) -> None:
    example = ".aiwg/ops/adapters/sandbox-agent-runner/examples/cycle-005-request.json"

    done = run(target, "--request", example, "--door", "rest", "--only", "CF-2", "--only", "AC-9")

    assert [line.split("\t")[:3] for line in done.stdout.splitlines()[:2]] == [
        ["pass", "rest 1.0", "CF-2"],
        ["skip", "rest 1.0", "AC-9"],
    ]
    assert done.returncode == 0
