"""A real daemon, its own state folder and workspace, and a client that spells A2A 1.0 by hand."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

HITL = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
OUTCOME = "urn:sandboxd:outcome:v1"
RUNNER = ".aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
REPOSITORY = Path(__file__).resolve().parents[2]


def wait_until(condition: Callable[[], Any], *, timeout_s: float = 10.0, what: str = "the condition") -> Any:
    """Poll until the condition holds, and return its value."""
    ends_at = time.monotonic() + timeout_s
    while time.monotonic() < ends_at:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {timeout_s} s")


def processes_with(marker: str) -> list[int]:
    """The living processes whose environment or command line holds the marker; zombies do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            is_zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if marker.encode() in text and not is_zombie:
            found.append(int(entry.name))
    return found


class Daemon:
    """A `sandboxd serve` of our own, over loopback TCP."""

    def __init__(self, folder: Path, node: str, policy: str | None = None, extra: str = "", isolation: str = "none") -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        adapter = self.workspace / ".aiwg/ops/adapters/sandbox-agent-runner"
        adapter.mkdir(parents=True)
        (self.workspace / ".aiwg/ops/runs").mkdir(parents=True)
        shutil.copy(REPOSITORY / "tests/fakes/runner.mjs", adapter / "runner.mjs")
        self.policy = folder / "sandbox-agent-runner.toml"
        self.policy.write_text(policy or (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text())
        self.policy.chmod(0o644)
        self.config = folder / "sandboxd.toml"
        self.config.write_text(
            f"""
state_dir = "{folder / "state"}"

[listen]
unix = "{folder / "api.sock"}"
tcp = "127.0.0.1:0"
allow_root = true

[programs]
node = "{node}"
bash = "/bin/bash"

[[instance]]
id = "default"
root = "{self.workspace}"
policies = ["{self.policy}"]
default = true

[isolation]
level = "{isolation}"
{extra}
"""
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self._names = itertools.count()

    def command(self) -> list[str]:
        return [sys.executable, "-m", "sandboxd", "serve", "--config", str(self.config)]

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Begin to start, and no more."""
        (self.folder / "state").mkdir(exist_ok=True)
        port_file = self.folder / "state" / "tcp-port"
        port_file.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def wait_ready(self) -> None:
        """Until its doors are open."""
        try:
            port = wait_until(self._port, timeout_s=60, what="the daemon's port")
        except AssertionError as error:
            assert self.process is not None
            self.process.kill()  # whoever wanted it started has nothing to end
            self.process.wait()
            raise AssertionError(f"{error}\n{(self.folder / 'log').read_text()}") from None
        self.url = f"http://127.0.0.1:{port}"

    def _port(self) -> str | None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError("the daemon ended")
        try:
            return (self.folder / "state" / "tcp-port").read_text().strip() or None
        except FileNotFoundError:
            return None

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=20)

    def end(self) -> None:
        """Stop it if it runs, and see that it stopped well."""
        if self.process is not None and self.process.poll() is None:
            assert self.stop() == 0, (self.folder / "log").read_text()[-4000:]

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=20)

    @property
    def store(self) -> Path:
        return self.folder / "state" / "sandboxd.sqlite3"

    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def token(self) -> str:
        return (self.folder / "state" / "cli.token").read_text().strip()

    def client(self, *, extensions: Sequence[str] = (HITL,), version: str = "1.0", **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}", "A2A-Version": version, **options.pop("headers", {})}
        if extensions:
            headers["A2A-Extensions"] = ", ".join(extensions)
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, trust_env=False, **options)

    def request(self, steps: Sequence[Sequence[Any]], name: str | None = None) -> str:
        """Write a request file; its path below the workspace."""
        path = f".aiwg/ops/runs/{name or f'request-{next(self._names)}'}.json"
        (self.workspace / path).write_text(json.dumps({"steps": list(steps)}))
        return path

    def envelope(self, request_path: str, **changes: Any) -> dict[str, Any]:
        envelope: dict[str, Any] = {
            "adapter": "sandbox-agent-runner",
            "mode": "plan",
            "command": ["node", RUNNER, "--request", request_path],
            "working_dir": "/workspace",
            "timeout_seconds": 60,
            "input_mode": "text-line",
        }
        envelope |= changes
        return {key: value for key, value in envelope.items() if value is not ...}

    def message(self, envelope: Any = ..., text: str = "Run it.") -> dict[str, Any]:
        message: dict[str, Any] = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
        if envelope is not ...:
            message["metadata"] = {ADAPTER: envelope}
        return {"message": message}

    def run(self, steps: Sequence[Sequence[Any]], *, wait: bool = True, **changes: Any) -> dict[str, Any]:
        """Send a command by HTTP+JSON; the task as it stands when the send returns."""
        body = self.message(self.envelope(self.request(steps), **changes))
        if not wait:
            body["configuration"] = {"returnImmediately": True}
        with self.client() as client:
            answer = client.post("/message:send", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["task"]

    def get(self, task_id: str) -> dict[str, Any]:
        with self.client() as client:
            answer = client.get(f"/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def answer(
        self, task: dict[str, Any], text: Any = "y", *, prompt_id: str | None = None, wait: bool = False
    ) -> httpx.Response:
        body = answer_body(task, prompt_id or prompt_of(task)["prompt_id"], text, wait=wait)
        with self.client() as client:
            return client.post("/message:send", json=body)

    def until(self, task_id: str, *states: str, timeout_s: float = 15.0) -> dict[str, Any]:
        wanted = {f"TASK_STATE_{state}" for state in states}

        def reached() -> dict[str, Any] | None:
            task = self.get(task_id)
            return task if task["status"]["state"] in wanted else None

        return wait_until(reached, timeout_s=timeout_s, what=f"{states}")


def answer_body(task: Mapping[str, Any], prompt_id: str, text: Any, *, wait: bool = False) -> dict[str, Any]:
    """The body of the message that answers a task's prompt; `text` may be a whole payload."""
    payload = text if isinstance(text, dict) else {"text": text}
    message = {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "taskId": task["id"],
        "contextId": task["contextId"],
        "parts": [{"data": payload, "mediaType": "application/json"}],
        "metadata": {"hitl_response_for": {"prompt_id": prompt_id, "payload": payload}},
    }
    return {"message": message, "configuration": {"returnImmediately": not wait}}


def state_of(task: dict[str, Any]) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")


def prompt_of(task: dict[str, Any]) -> dict[str, Any]:
    return task["status"]["message"]["metadata"][HITL]


def outcome_of(task: dict[str, Any]) -> dict[str, Any]:
    return task["status"]["message"]["metadata"][OUTCOME]


def output_of(task: dict[str, Any], artifact_id: str = "terminal") -> str:
    for artifact in task.get("artifacts", []):
        if artifact["artifactId"] == artifact_id:
            return "".join(part.get("text", "") for part in artifact["parts"])
    return ""
