"""How is a daemon of the bench's own started, spoken to and watched?

Over loopback TCP, with the client that costs least: `http.client` on one kept connection. Whatever the client costs is paid
by both sides of a pair.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import attrs

from benchmarks.bench import HERE

ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
HITL = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
PROMPT = "urn:sandboxd:prompt:v1"
_POLICY = """
format = 1
adapter = "bench-{program}"

[command]
program = "{program}"
argv = ["{program}", "{{script}}"]

[command.env]
PATH = "/usr/bin:/bin"

[hole.mode]
one-of = ["plan", "assess"]

[hole.script]
path-under = ["."]

[limits]
timeout = {{ default = "15m", max = "15m" }}
output = "256MiB"

[prompts]
detectors = ["shell", "node"]
max = 10000
"""
_CONFIG = """
state_dir = "{folder}/state"

[listen]
unix = "{folder}/api.sock"
tcp = "127.0.0.1:0"
allow_root = true

[programs]
python3 = "/usr/bin/python3"
sh = "/bin/sh"

[[instance]]
id = "bench"
root = "{folder}/workspace"
policies = ["{folder}/python3.toml", "{folder}/sh.toml"]

[limits]
max_tasks = 2000
max_connections = 2000
rate = 0
keepalive = "10m"

[push]
enabled = false

[isolation]
level = "{level}"
"""


class Line:
    """One kept connection to the daemon."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=60)
        self._connection.connect()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """One request; the whole answer, which must be a good one."""
        self._connection.request(method, path, body, self._host.headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:500]!r}")
        return data

    def events(self, method: str, path: str, body: bytes | None = None) -> Iterator[dict[str, Any]]:
        """The events of a stream, each as soon as it is there."""
        self._connection.request(method, path, body, self._host.headers)
        answer = self._connection.getresponse()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.read()[:500]!r}")
        while line := answer.readline():
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


@attrs.define
class Host:
    """A daemon in a folder, as its process and where it listens."""

    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    ready_s: float
    headers: dict[str, str]

    def line(self) -> Line:
        """Another connection."""
        return Line(self)

    def rss_bytes(self) -> int:
        """What the daemon's process holds in memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def fds(self, line: Line) -> int:
        """How many descriptors it has open, in its own words: nobody else may look."""
        (found,) = re.findall(rb"^sandboxd_open_descriptors (\S+)", line.call("GET", "/metrics"), re.MULTILINE)
        return int(float(found))


def send_body(script: str, program: str = "python3") -> bytes:
    """A message that starts one of the bench's programs on a terminal, and does not wait for its end."""
    command = [program, script]
    envelope = {"adapter": f"bench-{program}", "mode": "plan", "command": command, "input_mode": "text-line"}
    return message_body(metadata={ADAPTER: {**envelope, "timeout_seconds": 900}})


def message_body(**more: Any) -> bytes:
    """A message of its own id; without more, it is echoed."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}], **more}
    return json.dumps({"message": message, "configuration": {"returnImmediately": True}}).encode()


def answer_body(task_id: str, prompt_id: str, text: str = "y") -> bytes:
    """An answer to that prompt."""
    response = {"prompt_id": prompt_id, "payload": {"text": text}}
    return message_body(taskId=task_id, metadata={"hitl_response_for": response})


def _is_ready(port: int) -> bool:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        asking.request("GET", "/readyz")
        return asking.getresponse().status == HTTPStatus.OK
    finally:
        asking.close()


@contextlib.contextmanager
def running(folder: Path, *, level: str = "none") -> Iterator[Host]:
    """A daemon of our own; ended, however this is left. `folder` may hold the state of one that ran before."""
    workspace = folder / "workspace"
    if not workspace.exists():
        workspace.mkdir(parents=True)
        for script in filter(Path.is_file, (HERE / "programs").iterdir()):
            (workspace / script.name).write_text(script.read_text())
    for program in ("python3", "sh"):
        policy = folder / f"{program}.toml"
        policy.write_text(_POLICY.format(program=program))
        policy.chmod(0o644)
    (folder / "sandboxd.toml").write_text(_CONFIG.format(folder=folder, level=level))
    (folder / "state").mkdir(exist_ok=True)
    port_file = folder / "state" / "tcp-port"
    port_file.unlink(missing_ok=True)
    began = time.monotonic()
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "sandboxd", "serve", "--config", str(folder / "sandboxd.toml")]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        while not port_file.exists() or not port_file.read_text().strip():
            if process.poll() is not None or time.monotonic() - began > 60:
                raise RuntimeError(f"the daemon did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.002)
        while not _is_ready(int(port_file.read_text())):
            time.sleep(0.002)
        ready_s = time.monotonic() - began
        token = (folder / "state" / "cli.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0", "Content-Type": "application/json"}
        headers["A2A-Extensions"] = HITL
        yield Host(folder, process, int(port_file.read_text()), ready_s, headers)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
