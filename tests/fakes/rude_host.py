"""A host that says what it likes, byte for byte, over A2A 1.0's HTTP+JSON: tasks that are no tasks, pages that are no JSON."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs

from tests.support.daemon import HITL


@attrs.define
class Reply:
    """What goes out: `pieces` of a body of any length, each as it comes."""

    status: int = 200
    pieces: Iterator[bytes] = attrs.field(factory=lambda: iter((b"{}",)))
    headers: dict[str, str] = attrs.field(factory=dict)


def reply(body: bytes, status: int = 200, **headers: str) -> Reply:
    return Reply(status, iter((body,)), {name.replace("_", "-"): value for name, value in headers.items()})


def spelled(task_id: str, *, state: str = "WORKING", envelope: Any = None, text: str = "Proceed?") -> bytes:
    """A task as a good host spells it."""
    message: dict[str, Any] = {"messageId": f"m-{task_id}", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    message |= {"metadata": {HITL: envelope}} if envelope is not None else {}
    status: dict[str, Any] = {"state": f"TASK_STATE_{state}"} | ({"message": message} if state == "INPUT_REQUIRED" else {})
    return json.dumps({"id": task_id, "contextId": f"c-{task_id}", "status": status}).encode()


class RudeHost:
    """The server; `with` starts and ends it. `tasks`: raw members of its lists; all of them are listed as input-required.

    `answer_` of a path's beginning takes the place of what it would say there.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, bytes] = {}
        self.replies: dict[str, Callable[[str, dict[str, str]], Reply | None]] = {}
        self.requests: list[tuple[str, str, bytes]] = []
        self.ends = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> RudeHost:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self, beginning: str) -> int:
        return sum(path.startswith(beginning) for _, path, _ in list(self.requests))

    def drip(self, piece: bytes = b" ", every_s: float = 0.02) -> Iterator[bytes]:
        """A body that never ends."""
        while not self.ends.is_set():
            yield piece
            time.sleep(every_s)

    def say(self, method: str, path: str, query: dict[str, str], body: bytes) -> Reply:
        self.requests.append((method, path, body))
        for beginning, make in self.replies.items():
            if path.startswith(beginning) and (made := make(path, query)) is not None:
                return made
        if path == "/tasks":
            return self.page(query)
        task = self.tasks.get(path.removeprefix("/tasks/"))
        return reply(b'{"error": {"code": 404}}', 404) if task is None else reply(task)

    def page(self, query: dict[str, str]) -> Reply:
        """One page of those that ask; the token is where the next one begins."""
        listed = (
            list(self.tasks.values()) if query.get("status", "TASK_STATE_INPUT_REQUIRED").endswith("INPUT_REQUIRED") else []
        )
        start, size = int(query.get("pageToken") or 0), int(query.get("pageSize") or 50)
        token = str(start + size) if start + size < len(listed) else ""
        return reply(
            b'{"tasks": [' + b", ".join(listed[start : start + size]) + b'], "nextPageToken": "' + token.encode() + b'"}'
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        return  # a client that has enough is part of the play


def _handler(host: RudeHost) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made = host.say(self.command, parts.path, query, data)
            self.send_response(made.status)
            for name, value in ({"Content-Type": "application/json"} | made.headers).items():
                self.send_header(name, value)
            self.end_headers()
            for piece in made.pieces:
                self.wfile.write(piece)
                self.wfile.flush()

        def do_POST(self) -> None:
            self.do_GET()

    return Handler
