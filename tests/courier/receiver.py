"""A webhook receiver as an orchestrator has one: signature, clock and event id are checked before a body is looked at."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

WINDOW_S = 300


class Receiver:
    """Answers on a port of its own until it is closed. `plan`: statuses for the next requests, before it judges for itself."""

    def __init__(self, secrets: dict[str, str] | None = None, *, hangs: bool = False, redirect: str = "") -> None:
        self.secrets = secrets
        self.plan: list[int] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.events: list[dict[str, Any]] = []  # routed once each
        self.seen: set[str] = set()
        self.told: list[int] = []
        self.on_request: Any = None
        self._release = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.path, headers, body))
                if hangs:
                    receiver._release.wait(60)
                status = receiver.judge(self.path, headers, body)
                receiver.told.append(status)
                self.send_response(302 if redirect else status)
                if redirect:
                    self.send_header("Location", redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()

    def judge(self, path: str, headers: dict[str, str], body: bytes) -> int:
        if self.on_request:
            self.on_request()
        if self.plan:
            return self.plan.pop(0)
        if self.secrets is not None:
            (config_id,) = parse_qs(urlsplit(path).query).get("configId", [""])
            if config_id not in self.secrets:
                return 404
            if not self._is_signed(self.secrets[config_id], headers.get("x-aiwg-signature", ""), body):
                return 401
        event_id = headers.get("x-aiwg-event-id")
        if not event_id:
            return 400
        if event_id not in self.seen:
            self.seen.add(event_id)
            self.events.append(json.loads(body))
        return 200

    @staticmethod
    def _is_signed(secret: str, signature: str, body: bytes) -> bool:
        fields = [item.partition("=") for item in signature.split(",")]
        at = next((value for name, _, value in fields if name == "t"), "")
        if not at or abs(time.time() - int(at)) > WINDOW_S:
            return False
        wanted = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
        return any(name == "v1" and hmac.compare_digest(value, wanted) for name, _, value in fields)

    def event_ids(self) -> list[str]:
        return [headers.get("x-aiwg-event-id", "") for _, headers, _ in self.requests]

    def numbers(self) -> list[int]:
        """The sequence numbers of the accepted requests, in order of arrival."""
        return [int(event_id.rpartition("-")[2]) for event_id in self.event_ids()]
