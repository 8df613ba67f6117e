"""What does the CLI ask of a daemon, and what does it make of the answers?

A real HTTP server at a real unix socket that answers from a few tasks in memory, in the shapes of A2A 1.0. It keeps every
request that came, so that a test can say what was sent.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT, OUTCOME, PROMPT_FACTS, RUN_FACTS
from sandboxd.hitl.answer import AnswerForm, Choice, response_schema

FORM = AnswerForm("yes_no", (Choice("y", "Yes"), Choice("n", "No")), default="n")
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


@attrs.define
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@attrs.define
class World:
    """`tasks` by id, `streams` (event blocks of one connection after the other) and `artifacts` by task."""

    tasks: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    streams: list[bytes] = attrs.field(factory=list)
    artifacts: dict[tuple[str, str], bytes] = attrs.field(factory=dict)
    refusals: list[tuple[int, dict[str, Any]]] = attrs.field(factory=list)  # the next POSTs answer with these
    ends_at_answer: dict[str, Any] | None = None  # what becomes of the task that is answered
    requests: list[Request] = attrs.field(factory=list)
    socket: str = ""


def task(
    task_id: str, state: str = "WORKING", *, says: str = "", metadata: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": says}], "metadata": metadata or {}}
    status: dict[str, Any] = {"state": f"TASK_STATE_{state}", "timestamp": "2026-11-29T12:00:01.000Z"}
    if says:
        status["message"] = message
    run = {RUN_FACTS: {"instance": "default", "adapter": "sandbox-agent-runner", "mode": "plan"}}
    return {"id": task_id, "contextId": f"c-{task_id}", "status": status, "metadata": run, **rest}


def waiting(task_id: str, prompt_id: str, question: str = "Write the plan? [y/N]", form: AnswerForm = FORM) -> dict[str, Any]:
    envelope = {
        "prompt_id": prompt_id,
        "prompt": question,
        "response_schema": response_schema(form),
        "deadline": "2099-11-29T12:05:00.000Z",
        "allowed_responders": ["any"],
    }
    facts = {"kind": form.kind, "default": form.default, "rule": "shell.yes-no"}
    made = task(task_id, "INPUT_REQUIRED", says=question, metadata={HITL_PROMPT: envelope, PROMPT_FACTS: facts})
    return made | {"history": [made["status"]["message"]]}


def ended(task_id: str, state: str = "COMPLETED", says: str = "The program ended.", **outcome: Any) -> dict[str, Any]:
    return task(task_id, state, says=says, metadata={OUTCOME: outcome})


def event(seq: int, item: dict[str, Any]) -> bytes:
    return f"id: {seq}\ndata: {json.dumps(item, ensure_ascii=False)}\n\n".encode()


def status_event(seq: int, of: dict[str, Any]) -> bytes:
    return event(seq, {"statusUpdate": {"taskId": of["id"], "contextId": of["contextId"], "status": of["status"]}})


def output_event(seq: int, text: str, artifact_id: str = "terminal") -> bytes:
    return event(
        seq,
        {
            "artifactUpdate": {
                "taskId": "t",
                "contextId": "c",
                "artifact": {"artifactId": artifact_id, "parts": [{"text": text}]},
            }
        },
    )


def refusal(status: int, reason: str, message: str, *more: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    details = [{"@type": ERROR_INFO, "reason": reason, "domain": "a2a-protocol.org", "metadata": {}}, *more]
    return status, {"error": {"code": status, "status": "X", "message": message, "details": details}}


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[World]:
    world = World(socket=str(directory / "d.sock"))

    class Handler(_Handler):
        here = world

    with _Server(world.socket, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield world
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    here: World
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the standard library
        """Be quiet."""

    def do_GET(self) -> None:
        request = self._take()
        parts = request.path.removeprefix("/agents/other").strip("/").split("/")
        task_id = parts[1].removesuffix(":subscribe") if len(parts) > 1 else ""
        if parts == ["tasks"]:
            self._list(request)
        elif request.path.endswith(":subscribe"):
            self._stream()
        elif len(parts) == 4 and (task_id, parts[3]) in self.here.artifacts:
            self._reply(200, self.here.artifacts[task_id, parts[3]], "application/octet-stream")
        elif len(parts) == 2 and task_id in self.here.tasks:
            self._json(200, self.here.tasks[task_id])
        else:
            self._json(*refusal(404, "TASK_NOT_FOUND", f"cannot show task `{task_id}`: no such task"))

    def do_POST(self) -> None:
        request = self._take()
        if self.here.refusals:
            self._json(*self.here.refusals.pop(0))
        elif request.path.endswith(":cancel"):
            self._json(200, task(request.path.split("/")[2].removesuffix(":cancel"), "CANCELED", says="Canceled."))
        else:
            task_id = request.body["message"]["taskId"]
            self._json(200, {"task": task(task_id, "WORKING")})
            self.here.tasks[task_id] = self.here.ends_at_answer or task(task_id, "WORKING")

    def _list(self, request: Request) -> None:
        found = [
            it for it in self.here.tasks.values() if request.query.get("status", it["status"]["state"]) == it["status"]["state"]
        ]
        start, size = int(request.query.get("pageToken") or 0), int(request.query["pageSize"])
        token = str(start + size) if start + size < len(found) else ""
        self._json(
            200, {"tasks": found[start : start + size], "nextPageToken": token, "pageSize": size, "totalSize": len(found)}
        )

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.here.streams.pop(0))
        self.close_connection = True

    def _take(self) -> Request:
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        request = Request(self.command, split.path, query, {name.lower(): value for name, value in self.headers.items()}, body)
        self.here.requests.append(request)
        return request

    def _json(self, status: int, value: Any) -> None:
        self._reply(status, json.dumps(value, ensure_ascii=False).encode(), "application/json")

    def _reply(self, status: int, body: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
