"""A foreign executor, scripted: it asks what it is told to, by A2A 1.0 over JSON-RPC and HTTP+JSON, and fails as it is told to.

It is no sandboxd: it keeps no history and names no accepted message unless told to, and may close its streams when it asks.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

from tests.support.daemon import ADAPTER, HITL

IDEMPOTENCY = "https://agentic-sandbox.aiwg.io/extensions/idempotency/v1"

ENDED = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")


@attrs.define
class ScriptedTask:
    """One task; `events` are its status updates, numbered from 1."""

    id: str
    context_id: str
    state: str = "WORKING"
    message: dict[str, Any] | None = None
    prompt_id: str | None = None
    taken: dict[str, tuple[str, Any]] = attrs.field(factory=dict)
    history: list[dict[str, Any]] = attrs.field(factory=list)
    events: list[dict[str, Any]] = attrs.field(factory=list)
    cancel_reasons: list[str] = attrs.field(factory=list)
    message_id: str = ""

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"state": f"TASK_STATE_{self.state}"}
        return status | ({"message": self.message} if self.message else {})

    def as_json(self, *, history: bool) -> dict[str, Any]:
        task: dict[str, Any] = {"id": self.id, "contextId": self.context_id, "status": self.status()}
        return task | ({"history": self.history} if history else {})


@attrs.define
class Manners:
    """How it behaves; each may be changed at any time."""

    names_accepted: bool = False
    keeps_history: bool = False
    closes_when_asking: bool = False
    loses_replies: int = 0  # of so many answers it does all, and then says nothing
    breaks_before: int = 0  # so many answers it answers with 503, and does nothing
    refuses_payloads: int = 0  # so many answers do not fit, whatever they are
    refuses_with: int = 0  # this HTTP status, for every answer
    refuses_times: int = 0  # … for so many of them alone; 0: for all
    declares: tuple[str, ...] = ()  # extensions in its card; with idempotency/v1 it acts on a message once
    loses_dispatches: int = 0  # of so many commands it says nothing, and starts them all the same
    drops_dispatches: int = 0  # of so many commands it says nothing, and starts none of them
    refuses_dispatch: int = 0  # this HTTP status, for every command


class Executor:
    """The server; `with` starts and ends it."""

    def __init__(self, **manners: Any) -> None:
        self.manners = Manners(**manners)
        self.tasks: dict[str, ScriptedTask] = {}
        self.answers: list[dict[str, Any]] = []  # every message with an answer that arrived, in order
        self.dispatches: list[dict[str, Any]] = []  # every message with a command that arrived, in order
        self.extensions: set[str] = set()
        self.looks = 0
        self.changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Executor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            for task in self.tasks.values():
                task.state = "CANCELED"
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def begin(self, task_id: str | None = None) -> str:
        task = ScriptedTask(task_id or str(uuid.uuid4()), str(uuid.uuid4()))
        with self.changed:
            self.tasks[task.id] = task
            self._say(task)
        return task.id

    def ask(self, task_id: str, envelope: Any, text: str = "Proceed?") -> None:
        """Go to input-required; `envelope` ...: none."""
        message: dict[str, Any] = {"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": [{"text": text}]}
        if envelope is not ...:
            message["metadata"] = {HITL: envelope}
        with self.changed:
            task = self.tasks[task_id]
            task.prompt_id = envelope.get("prompt_id") if isinstance(envelope, dict) else None
            task.state, task.message = "INPUT_REQUIRED", message
            self._say(task)

    def move(self, task_id: str, state: str) -> None:
        with self.changed:
            task = self.tasks[task_id]
            task.state, task.message, task.prompt_id = state, None, None
            self._say(task)

    def taken(self, prompt_id: str) -> Any:
        """The payload that was accepted for the prompt."""
        return next((task.taken[prompt_id][1] for task in self.tasks.values() if prompt_id in task.taken), None)

    def _say(self, task: ScriptedTask) -> None:
        task.events.append({"taskId": task.id, "contextId": task.context_id, "status": task.status()})
        self.changed.notify_all()

    # ── what clients ask ──

    def send(self, body: dict[str, Any]) -> tuple[int, Any]:
        message = body["message"]
        if ADAPTER in message.get("metadata", {}):
            return self._dispatch(message)
        response, task = message["metadata"]["hitl_response_for"], self.tasks.get(message["taskId"])
        self.answers.append(message)
        if self.manners.breaks_before:
            self.manners.breaks_before -= 1
            return 503, None
        if status := self.manners.refuses_with:
            if self.manners.refuses_times == 1:
                self.manners.refuses_with = 0
            self.manners.refuses_times = max(self.manners.refuses_times - 1, 0)
            return status, None
        with self.changed:
            if task is None or task.prompt_id != response["prompt_id"] or task.state != "INPUT_REQUIRED":
                known = task.taken.get(response["prompt_id"]) if task else None
                named = known and self.manners.names_accepted
                return 409, {"accepted_message_id": known[0]} if known and named else None
            if self.manners.refuses_payloads:
                self.manners.refuses_payloads -= 1
                said = response["payload"].get("text", "")
                return 422, {"validation_errors": [{"path": "/text", "keyword": "pattern", "message": f"`{said}` is no good"}]}
            task.taken[response["prompt_id"]] = (message["messageId"], response["payload"])
            task.history += [message] if self.manners.keeps_history else []
            task.state, task.message, task.prompt_id = "WORKING", None, None
            self._say(task)
        if self.manners.loses_replies:
            self.manners.loses_replies -= 1
            return 0, None
        return 200, {"task": task.as_json(history=False)}

    def _dispatch(self, message: dict[str, Any]) -> tuple[int, Any]:
        self.dispatches.append(message)
        if self.manners.refuses_dispatch:
            return self.manners.refuses_dispatch, {"message": "not today"}
        if self.manners.drops_dispatches:
            self.manners.drops_dispatches -= 1
            return 0, None
        with self.changed:
            started = next((task for task in self.tasks.values() if task.message_id == message["messageId"]), None)
            if started is None or IDEMPOTENCY not in self.manners.declares:
                started = ScriptedTask(str(uuid.uuid4()), message["contextId"], message_id=message["messageId"])
                self.tasks[started.id] = started
                self._say(started)
        if self.manners.loses_dispatches:
            self.manners.loses_dispatches -= 1
            return 0, None
        return 200, {"task": started.as_json(history=False)}

    def card(self) -> dict[str, Any]:
        listed = [{"uri": uri, "params": {"ttl_seconds": 86400} if uri == IDEMPOTENCY else {}} for uri in self.manners.declares]
        return {"name": "foreign", "capabilities": {"extensions": listed}}

    def cancel(self, task_id: str, reason: str) -> tuple[int, Any]:
        with self.changed:
            task = self.tasks.get(task_id)
            if task is None:
                return 404, None
            task.cancel_reasons.append(reason)
            if task.state in ENDED:
                return 409, None
            task.state, task.message, task.prompt_id = "CANCELED", None, None
            self._say(task)
            return 200, task.as_json(history=False)

    def get(self, task_id: str) -> tuple[int, Any]:
        task = self.tasks.get(task_id)
        return (404, None) if task is None else (200, task.as_json(history=self.manners.keeps_history))

    def list(self, query: dict[str, Any]) -> tuple[int, Any]:
        state, context_id = query.get("status"), query.get("contextId")
        self.looks += state == "TASK_STATE_WORKING"
        found = [
            task.as_json(history=False)
            for task in self.tasks.values()
            if state in (None, f"TASK_STATE_{task.state}") and context_id in (None, task.context_id)
        ]
        return 200, {"tasks": found, "nextPageToken": "", "pageSize": 100, "totalSize": len(found)}

    def follow(self, task_id: str, after: int, write: Callable[[int, Any], None]) -> None:
        task = self.tasks[task_id]
        with self.changed:
            seen = len(task.events)
            first = {"task": task.as_json(history=False)}
        write(seen, first)
        while True:
            if task.state in ENDED or (self.manners.closes_when_asking and task.state == "INPUT_REQUIRED"):
                return
            with self.changed:
                while len(task.events) == seen and task.state not in ENDED:
                    self.changed.wait(timeout=60)
                news, seen = task.events[seen:], len(task.events)
            for number, event in enumerate(news, start=seen - len(news) + 1):
                write(number, {"statusUpdate": event})


_CODES = {
    409: (-32010, "hitl_already_answered_or_unknown"),
    422: (-32011, "hitl_response_invalid"),
    502: (-32012, "hitl_delivery_failed"),
    404: (-32001, "no such task"),
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        return  # a client that goes away in the middle is part of the play


def _handler(executor: Executor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            self._rest(None)

        def do_POST(self) -> None:
            executor.extensions.update(uri.strip() for uri in self.headers.get("A2A-Extensions", "").split(","))
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(data) if data else None
            if isinstance(body, dict) and "jsonrpc" in body:
                self._rpc(body)
            else:
                self._rest(body)

        def _rpc(self, body: dict[str, Any]) -> None:
            params = body["params"]
            match body["method"]:
                case "SubscribeToTask":
                    self._stream(params["id"], lambda item: {"jsonrpc": "2.0", "id": body["id"], "result": item})
                    return
                case "SendMessage":
                    status, result = executor.send(params)
                case "GetTask":
                    status, result = executor.get(params["id"])
                case "ListTasks":
                    status, result = executor.list(params)
                case _:
                    status, result = executor.cancel(params["id"], (params.get("metadata") or {}).get("reason", ""))
            if status == 200:
                self._answer(200, {"jsonrpc": "2.0", "id": body["id"], "result": result})
            elif status in _CODES:
                code, message = _CODES[status]
                error = {"code": code, "message": message} | ({"data": result} if result else {})
                self._answer(200, {"jsonrpc": "2.0", "id": body["id"], "error": error})
            else:
                self._answer(status, result)

        def _rest(self, body: Any) -> None:
            path, _, query = self.path.partition("?")
            if path == "/.well-known/agent-card.json":
                status, result = 200, executor.card()
            elif path == "/message:send":
                status, result = executor.send(body)
            elif path == "/tasks":
                given = dict(pair.split("=") for pair in query.split("&"))
                status, result = executor.list(given)
            elif path.endswith(":subscribe"):
                self._stream(path.removeprefix("/tasks/").removesuffix(":subscribe"), lambda item: item)
                return
            elif path.endswith(":cancel"):
                task_id = path.removeprefix("/tasks/").removesuffix(":cancel")
                status, result = executor.cancel(task_id, (body.get("metadata") or {}).get("reason", ""))
            else:
                status, result = executor.get(path.removeprefix("/tasks/"))
            self._answer(status, result if status == 200 else {"error": {"code": status, "details": [result or {}]}})

        def _stream(self, task_id: str, wrap: Callable[[Any], Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True

            def write(number: int, item: Any) -> None:
                self.wfile.write(f"id: {number}\r\ndata: {json.dumps(wrap(item))}\r\n\r\n".encode())
                self.wfile.flush()

            try:
                executor.follow(task_id, 0, write)
            except OSError:
                return

        def _answer(self, status: int, value: Any) -> None:
            if status == 0:  # the reply is lost
                self.close_connection = True
                return
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
