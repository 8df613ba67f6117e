"""By which doors is the fake executor reached?

HTTP+JSON and JSON-RPC of A2A 1.0 and of 0.3, and the `messages:send` dialect, over the standard library's HTTP server.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.conformance.fake_executor import HITL, Executor, FakeTask, Fault

METHODS = {
    "SendMessage": "send",
    "SendStreamingMessage": "stream",
    "SubscribeToTask": "subscribe",
    "GetTask": "get",
    "CancelTask": "cancel",
    "message/send": "send",
    "message/stream": "stream",
    "tasks/resubscribe": "subscribe",
    "tasks/get": "get",
    "tasks/cancel": "cancel",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment: two wait for each other, 40 ms a request
    disable_nagle_algorithm = True
    executor: Executor
    doors: tuple[str, ...]

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _serve(self, data: bytes) -> None:
        body = json.loads(data) if data else {}
        if self.path == "/.well-known/agent-card.json":
            return self._write(200, self._card())
        if self.path == "/restart":
            self.executor.restart()
            return self._write(200, {})
        if self.path == "/":
            return self._call(body)
        try:
            return self._rest(body)
        except Fault as fault:
            error = {"code": fault.status, "message": fault.message, "details": [{"value": fault.extra}]}
            return self._write(fault.status, {"error": error, **fault.extra})

    def _rest(self, body: dict[str, Any]) -> None:
        path = self.path
        old = path.startswith(("/messages:", "/v1/")) or (self.doors == ("dialect",) and path.startswith("/tasks/"))
        door = "rest"
        if old:
            door = "rest03" if path.startswith("/v1/") else "dialect"
        if door not in self.doors:
            raise Fault(404, -32601, "no such path")
        if path in ("/message:send", "/messages:send", "/v1/message:send"):
            task, is_replay = self.executor.send(body.get("message") or _missing(), self._active())
            is_answer = "hitl_response_for" in (body["message"].get("metadata") or {})
            status = (
                202 if (door == "dialect" and not is_answer) or (is_answer and self.executor.flaw == "202-for-answers") else 200
            )
            spelled = self._task(task, old=old)
            return self._write(status, spelled if old else {"task": spelled}, is_replay=is_replay)
        if path.endswith("/message:stream"):
            task, _ = self.executor.send(body["message"], self._active())
            return self._stream(task, call_id=None, old=old)
        task_id, _, verb = path.removeprefix("/v1").removeprefix("/tasks/").replace("/cancel", ":cancel").partition(":")
        return self._act(verb or "get", task_id, door, old=old)

    def _act(self, verb: str, task_id: str, door: str, *, old: bool) -> None:
        match verb:
            case "get":
                self._write(200, self._task(self.executor.get(task_id), old=old))
            case "cancel":
                self._write(200, self._task(self.executor.cancel(task_id), old=old))
            case "subscribe" if door != "dialect":
                self._stream(self.executor.get(task_id), call_id=None, is_replay=True, old=old)
            case _:
                raise Fault(404, -32601, "no such path")

    def _call(self, body: dict[str, Any]) -> None:
        call_id, params, verb = body.get("id"), body.get("params") or {}, METHODS.get(str(body.get("method")))
        old = "/" in str(body.get("method"))
        try:
            if verb is None or ("rpc03" if old else "rpc10") not in self.doors:
                raise Fault(404, -32601, "Method not found")
            if verb == "stream":
                return self._stream(self.executor.send(params["message"], self._active())[0], call_id=call_id, old=old)
            if verb == "subscribe":
                return self._stream(self.executor.get(params["id"]), call_id=call_id, is_replay=True, old=old)
            is_replay = False
            if verb == "send":
                task, is_replay = self.executor.send(params["message"], self._active())
            else:
                task = self.executor.get(params["id"]) if verb == "get" else self.executor.cancel(params["id"])
            spelled: Any = self._task(task, old=old)
            result = {"task": spelled} if verb == "send" and not old else spelled
            return self._write(200, {"jsonrpc": "2.0", "id": call_id, "result": result}, is_replay=is_replay)
        except Fault as fault:
            error = {"code": fault.code, "message": fault.message, "data": fault.extra}
            return self._write(200, {"jsonrpc": "2.0", "id": call_id, "error": error})

    def _stream(self, task: FakeTask, *, call_id: Any, is_replay: bool = False, old: bool = False) -> None:
        """Every event so far with its number, then the end: the turn is over."""
        after = int(self.headers.get("Last-Event-ID") or 0)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self._echo()
        self.end_headers()
        for number, event in enumerate(task.events, 1):
            if number <= after:
                continue
            envelope = event["envelope"]
            if is_replay and envelope and self.executor.flaw == "loses-envelope-on-replay":
                envelope = None
            if is_replay and envelope and self.executor.flaw == "new-id-on-replay":
                envelope = {**envelope, "prompt_id": "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"}
            status = self._status(event["state"], envelope, old=old)
            update: dict[str, Any] = {"taskId": task.id, "contextId": task.context_id, "status": status}
            item = {"kind": "status-update", "final": False, **update} if old else {"statusUpdate": update}
            data = {"jsonrpc": "2.0", "id": call_id, "result": item} if call_id is not None else item
            self.wfile.write(f"id: {number}\ndata: {json.dumps(data)}\n\n".encode())
        self.close_connection = True

    def _task(self, task: FakeTask, *, old: bool) -> dict[str, Any]:
        state, envelope = task.state, task.envelope
        if task.shows_until is not None and time.monotonic() < task.shows_until[0]:
            state, envelope = "input-required", task.shows_until[1]
        status = self._status(state, envelope, old=old)
        if task.exit_code is not None and state in ("completed", "failed"):
            status |= {"exit_code": task.exit_code} | ({"fail_kind": task.fail_kind} if state == "failed" else {})
        part = {"kind": "text", "text": task.output} if old else {"text": task.output}
        spelled = {"id": task.id, "contextId": task.context_id, "status": status}
        return spelled | ({"artifacts": [{"artifactId": "out", "parts": [part]}]} if task.output else {})

    def _status(self, state: str, envelope: Mapping[str, Any] | None, *, old: bool) -> dict[str, Any]:
        status: dict[str, Any] = {"state": state if old else f"TASK_STATE_{state.upper().replace('-', '_')}"}
        shows = HITL in self._active() or self.executor.flaw == "shows-without-activation"
        if envelope is not None:
            role = "agent" if old else "ROLE_AGENT"
            status["message"] = {"messageId": "q", "role": role, "parts": [{"text": envelope["prompt"]}]}
            if shows:
                status["message"]["metadata"] = {HITL: envelope}
        return status

    def _card(self) -> dict[str, Any]:
        url = f"http://{self.headers['Host']}"
        bindings = {
            "rest": ("HTTP+JSON", "1.0"),
            "rpc10": ("JSONRPC", "1.0"),
            "rpc03": ("JSONRPC", "0.3"),
            "rest03": ("HTTP+JSON", "0.3"),
        }
        listed = [bindings[door] for door in self.doors if door in bindings]
        return {
            "name": "fake",
            "supportedInterfaces": [
                {"url": url, "protocolBinding": binding, "protocolVersion": version} for binding, version in listed
            ],
            "capabilities": {"streaming": True, "extensions": self.executor.extensions()},
        }

    def _active(self) -> frozenset[str]:
        said = self.headers.get("A2A-Extensions") or self.headers.get("X-A2A-Extensions") or ""
        return frozenset(uri.strip() for uri in said.split(","))

    def _echo(self) -> None:
        if self.headers.get("A2A-Extensions") and self.executor.flaw != "no-echo-header":
            self.send_header("A2A-Extensions", self.headers["A2A-Extensions"])

    def _write(self, status: int, body: Any, *, is_replay: bool = False) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self._echo()
        if is_replay:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients that vanish are part of the play
            super().handle_error(request, client_address)


def _missing() -> dict[str, Any]:
    raise Fault(400, -32602, "message is missing")


@contextlib.contextmanager
def serving(flaw: str = "", doors: tuple[str, ...] = ("rest",)) -> Iterator[str]:
    """A fake executor's URL while the block runs."""
    handler = type("FlawedHandler", (Handler,), {"executor": Executor(flaw), "doors": doors})
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
