#!/usr/bin/env python3
"""What does the main job look like, step by step? (`make demo`)

Starts a daemon on a state folder and a copy of the example workspace, both thrown away afterwards; sends it the example's
adapter command by A2A 1.0 over HTTP+JSON; shows the question; lets the person answer it, or answers itself where there is
no terminal; shows how the task ends and what it left. Then the same once more, with a cockpit before the daemon: it ends with a
link, where a browser shows the question and answers it.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

HITL = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
OUTCOME = "urn:sandboxd:outcome:v1"
ADAPTER = "https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1"
REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = ".aiwg/ops/adapters/sandbox-agent-runner"
COMMAND = ["node", f"{FOLDER}/runner.mjs", "--request", f"{FOLDER}/examples/cycle-005-request.json"]
DECLINED = 3  # runner.mjs: a no is an answer too
START_S = 30
BUSY = 503  # the cockpit had no time to check the answer, and says: the same once more
ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")


def step(text: str) -> None:
    print(f"\n── {text}", flush=True)


def tell(text: str, mark: str = "  ") -> None:
    """What a task printed is data: escape codes are taken out, the rest of what cannot be printed is a dot."""
    for line in re.split(r"\r*\n", ESCAPE.sub("", text)):
        print(f"   {mark}{''.join(char if char.isprintable() else '·' for char in line)}", flush=True)


@contextmanager
def running(argv: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of sandboxd's; told to stop when the block ends."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "sandboxd", *argv], stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        process.terminate()
        code = process.wait(timeout=30)
    step(f"The {'daemon' if argv[0] == 'serve' else argv[0]} was asked to stop, and ended with exit code {code}")


@contextmanager
def daemon(folder: Path) -> Iterator[httpx.Client]:
    """A daemon of our own, with a client that knows its token; ended when the block ends."""
    workspace = shutil.copytree(REPOSITORY / "examples" / "workspace", folder / "workspace")
    config = folder / "sandboxd.toml"
    config.write_text(
        f"""\
state_dir = "{folder}/state"

[listen]
tcp = "127.0.0.1:0"

[programs]
node = "{os.environ.get("SANDBOXD_NODE") or shutil.which("node")}"

[[instance]]
id = "default"
root = "{workspace}"
policies = ["{REPOSITORY}/policies/sandbox-agent-runner.toml"]
"""
    )
    tell(config.read_text().rstrip(), "│ ")
    with running(["serve", "--config", str(config)], folder / "log") as process:
        port = wait_for(folder / "state" / "tcp-port", process, folder / "log")
        token = wait_for(folder / "state" / "cli.token", process, folder / "log")
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0", "A2A-Extensions": f"{HITL}, {ADAPTER}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=330, trust_env=False) as client:
            client.get("/readyz").raise_for_status()
            tell(f"up: process {process.pid}, user {os.getuid()}, http://127.0.0.1:{port}, SQLite store in {folder}/state")
            yield client


@contextmanager
def cockpit(folder: Path, host: httpx.URL) -> Iterator[httpx.Client]:
    """A cockpit before that daemon, with a client that brings a person's token."""
    config = folder / "cockpit.toml"
    config.write_text(
        f"""\
state-dir = "cockpit"

[web]
tcp = "127.0.0.1:0"

[[host]]
name = "demo"
url = "{str(host).rstrip("/")}"
token-file = "state/cli.token"

[[person]]
name = "you"
token-file = "you.token"
"""
    )
    tell(config.read_text().rstrip(), "│ ")
    (folder / "cockpit").mkdir(mode=0o700)
    with running(["cockpit", "--config", str(config)], folder / "cockpit.log") as process:
        port = wait_for(folder / "cockpit" / "web-port", process, folder / "cockpit.log")
        headers = {"Authorization": f"Bearer {(folder / 'you.token').read_text().strip()}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False) as client:
            yield client


def wait_for(file: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    """The text of a file that the daemon writes when it is up."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()):
            return text
        time.sleep(0.05)
    raise SystemExit(f"cannot start it: it said\n{log.read_text()}")


class Demo:
    """The client's side of one task."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._task: dict[str, Any] = {}

    def send(self) -> dict[str, Any]:
        """Send the command and follow its stream until the task asks or ends; the task as it stands then."""
        envelope = {"adapter": "sandbox-agent-runner", "mode": "plan", "command": COMMAND, "input_mode": "text-line"}
        message = {"parts": [{"text": "Run the bounded plan adapter."}], "metadata": {ADAPTER: envelope}}
        tell(json.dumps({"message": message}, indent=2), "> ")
        with self._client.stream("POST", "/message:stream", json=self._request(message)) as answer:
            if answer.is_error:
                answer.read()
                raise SystemExit(f"cannot send the command: {answer.status_code} {answer.text}")
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    self._show(json.loads(line.removeprefix("data:")))
        return self._task

    def answer(self, prompt: dict[str, Any], text: str) -> httpx.Response:
        """Answer, and wait until the task asks again or ends."""
        payload = {"text": text}
        message = {
            "taskId": self._task["id"],
            "contextId": self._task["contextId"],
            "parts": [{"data": payload, "mediaType": "application/json"}],
            "metadata": {"hitl_response_for": {"prompt_id": prompt["prompt_id"], "payload": payload}},
        }
        answer = self._client.post("/message:send", json=self._request(message))
        if answer.is_success:
            self._task = answer.json()["task"]
            self._show_state()
        return answer

    @property
    def task_id(self) -> str:
        return str(self._task["id"])

    @property
    def state(self) -> str:
        return str(self._task["status"]["state"]).removeprefix("TASK_STATE_").lower().replace("_", "-")

    @property
    def prompt(self) -> dict[str, Any]:
        return dict(self._task["status"]["message"]["metadata"][HITL])

    @property
    def said(self) -> str:
        """What the task's last status message says."""
        return " ".join(part.get("text", "") for part in self._task["status"].get("message", {}).get("parts", []))

    @property
    def exit_code(self) -> int | None:
        """The program's own, as the task's outcome has it."""
        outcome = self._task["status"].get("message", {}).get("metadata", {}).get(OUTCOME, {})
        return outcome.get("exit_code")

    def artifacts(self) -> list[dict[str, Any]]:
        found = self._client.get(f"/tasks/{self._task['id']}").raise_for_status().json()
        return list(found.get("artifacts", []))

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"message": {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", **message}}

    def _show(self, event: dict[str, Any]) -> None:
        if "task" in event:
            self._task = event["task"]
            tell(f"task {self._task['id']}")
            self._show_state()
        elif "statusUpdate" in event:
            self._task["status"] = event["statusUpdate"]["status"]
            self._show_state()
        elif "artifactUpdate" in event:
            for part in event["artifactUpdate"]["artifact"]["parts"]:
                tell(part.get("text", ""), "│ ")

    def _show_state(self) -> None:
        tell(f"state: {self.state} ({self._task['status']['state']})", "● ")


def ask(prompt: dict[str, Any]) -> str:
    if sys.stdin.isatty():
        return input("   your answer: ")
    tell("there is no terminal here, so the demo's own client answers: y")
    return "y"


def waiting(people: httpx.Client, task: str) -> dict[str, Any]:
    """The task's question, once the cockpit has it."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = people.get("/api/prompts", params={"state": "open", "task": task}).raise_for_status().json()["prompts"]
        if found:
            return dict(found[0])
        time.sleep(0.1)
    raise SystemExit("cannot show the question: it did not come to the cockpit")


def until_closed(people: httpx.Client, number: int) -> dict[str, Any]:
    """The question as it ends; a person at the terminal may leave sooner."""
    while True:
        question = people.get(f"/api/prompts/{number}").raise_for_status().json()["prompt"]
        if question["phase"] == "closed":
            return dict(question)
        if sys.stdin.isatty() and select.select([sys.stdin], [], [], 0.5)[0]:
            sys.stdin.readline()
            return dict(question)
        time.sleep(0.1)


def show_cockpit(folder: Path, client: httpx.Client) -> bool:
    """The same question in a browser; whether it was answered, or somebody left it."""
    step("A cockpit starts before the daemon, with this config")
    with cockpit(folder, client.base_url) as people:
        step("The command is sent once more, and its question comes to the cockpit")
        again = Demo(client)
        again.send()
        question = waiting(people, again.task_id)
        tell(f"question:  {question['question']}")
        step("Answer it in a browser")
        tell(f"link:   {str(people.base_url).rstrip('/')}/#/q/{question['number']}", "→ ")
        tell(f"token:  {(folder / 'you.token').read_text().strip()}", "→ ")
        if sys.stdin.isatty():
            tell("The demo ends when it is answered; Enter ends it sooner.")
        else:
            tell("there is no terminal here, so the demo's own client answers at the cockpit: y")
            where, answer = f"/api/prompts/{question['number']}/answer", {"payload": {"text": "y"}}
            while (said := people.post(where, json=answer)).status_code == BUSY:
                time.sleep(0.2)
            said.raise_for_status()
        ended = until_closed(people, question["number"])
        if ended["phase"] != "closed":
            step("Nobody answered; the task ends with the daemon")
            return True
        voters = ", ".join(f"{vote['person']} by {vote['channel']}" for vote in ended["votes"])
        step(f"The question is closed: {ended['status']}{f' ({voters})' if voters else ''}")
        return bool(ended["status"] == "responded") or sys.stdin.isatty()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sandboxd-demo-") as name, daemon(Path(name)) as client:
        demo = Demo(client)
        step("A client sends the adapter command by A2A 1.0 (POST /message:stream)")
        demo.send()
        while demo.state == "input-required":
            prompt = demo.prompt
            step("The program asks a person; the task waits: its state is input-required")
            tell(f"question:  {prompt['prompt']}")
            tell(f"prompt id: {prompt['prompt_id']}   until: {prompt.get('deadline', 'no limit')}")
            text = ask(prompt)
            step("The answer goes back as hitl_response_for, and is typed into the process that asked (POST /message:send)")
            answer = demo.answer(prompt, text)
            if answer.is_error:
                tell(f"not taken: {answer.status_code} {answer.text}")
                if not sys.stdin.isatty():
                    return 1
        step(f"The task is {demo.state}: {demo.said or 'done'}")
        for artifact in demo.artifacts():
            step(f"Artifact `{artifact['artifactId']}`")
            for part in artifact["parts"]:
                tell(part.get("text", ""), "│ ")
        plans = sorted(Path(name, "workspace/.aiwg/ops/runs").rglob("plan.json"))
        for plan in plans:
            step(f"What the program wrote: {plan.relative_to(Path(name) / 'workspace')}")
            tell(plan.read_text().rstrip(), "│ ")
        is_done = demo.state == "completed" or demo.exit_code == DECLINED
        return 0 if show_cockpit(Path(name), client) and is_done else 1


if __name__ == "__main__":
    step("A daemon starts, with this config")
    sys.exit(main())
