"""An agent that gives a cockpit tasks: what it says, and how it reads what comes."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import ADAPTER, HITL, Daemon, wait_until

RELAY = "urn:sandboxd:relay:v1"
LINKS = "urn:sandboxd:links:v1"
TRACE = "0af7651916cd43dd8448eb211c80319c"
WORDS = r"""
[[caller]]
name = "boss"
token-file = "boss.token"
host = "here"

[[caller]]
name = "other"
token-file = "other.token"
host = "here"
results = "withheld"

[[restate]]
question = 'Proceed with (?P<count>[0-9]+) file changes\? \[y/N\]'
ask = "The plan changes {count} files. Apply it?"
choices = { apply = "y", stop = "n" }

[[restate]]
question = 'Which branch\?'
ask = "On which branch?"
"""
ASK = ["ask", "Proceed with 14 file changes? [y/N] "]


class Caller:
    """An agent that gives tasks, by HTTP+JSON or by JSON-RPC."""

    def __init__(self, cockpit: Cockpit, name: str = "boss", *, rpc: bool = False) -> None:
        token = (cockpit.folder / f"{name}.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0", "A2A-Extensions": HITL}
        self.http = httpx.Client(base_url=f"{cockpit.url}/a2a", headers=headers, timeout=WAIT_S, trust_env=False)
        self.rpc = rpc

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def call(self, method: str, path: str, params: dict[str, Any], *, get: bool = False) -> httpx.Response:
        if self.rpc:
            return self.http.post("", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.http.get(path) if get else self.http.post(path, json=params)

    def read(self, answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 200, answer.text
        found = answer.json()
        if self.rpc:
            assert "result" in found, found
            found = found["result"]
        return found.get("task", found)

    def start(self, daemon: Daemon, steps: list[list[Any]], **more: Any) -> dict[str, Any]:
        return self.read(self.send(command(daemon, steps, **more)))

    def send(self, message: dict[str, Any], *, wait: bool = True) -> httpx.Response:
        body = {"message": message, "configuration": {"returnImmediately": not wait}}
        return self.call("SendMessage", "/message:send", body)

    def answer(self, task: dict[str, Any], payload: Any, **more: Any) -> httpx.Response:
        prompt_id = more.pop("prompt_id", None) or envelope_of(task)["prompt_id"]
        response = {"prompt_id": prompt_id, "payload": payload}
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "taskId": task["id"], "parts": [{"text": "answer"}]}
        wait = more.pop("wait", True)
        return self.send(message | {"metadata": {"hitl_response_for": response}} | more, wait=wait)

    def get(self, task: dict[str, Any]) -> dict[str, Any]:
        return self.read(self.call("GetTask", f"/tasks/{task['id']}", {"id": task["id"]}, get=True))

    def until(self, task: dict[str, Any], state: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            found = self.get(task)
            return found if found["status"]["state"] == f"TASK_STATE_{state}" else None

        found: dict[str, Any] = wait_until(reached, timeout_s=WAIT_S, what=state)
        return found


def command(daemon: Daemon, steps: list[list[Any]], **more: Any) -> dict[str, Any]:
    envelope = daemon.envelope(daemon.request(steps))
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "Run it."}]}
    return message | {"metadata": {ADAPTER: envelope} | more.pop("metadata", {})} | more


def envelope_of(task: dict[str, Any]) -> dict[str, Any]:
    return task["status"]["message"]["metadata"][HITL]


def refused_with(answer: httpx.Response) -> int:
    """HTTP's status, or what JSON-RPC has for it."""
    error = answer.json().get("error", {})
    codes = {-32010: 409, -32011: 422, -32001: 404}
    return codes.get(error.get("code"), answer.status_code)


def open_prompts(cockpit: Cockpit) -> list[dict[str, Any]]:
    with cockpit.client("alice") as client:
        return client.get("/api/prompts?state=open").json()["prompts"]
