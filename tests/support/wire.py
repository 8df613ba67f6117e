"""What comes back for any bytes over a raw connection, and is it a well-formed answer of its door?

No HTTP client can send what a hostile one sends. An answer is awaited for `BOUND_S` and no longer; of a stream, the first event
is read and then the reader hangs up.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs

from tests.support.daemon import REPOSITORY

Door = Literal["rpc", "rest", "dialect", "any"]

BOUND_S = 15.0  # a blocking send of a command takes a Node's start, on a machine that has other things to do
FAULT = "a fault of this host"
LEAKS = ("Traceback (most", 'File "/', '.py", line', "site-packages", ".sqlite3", "0x7f", str(REPOSITORY))


@attrs.frozen
class Answer:
    """One HTTP answer; of a stream, its first event."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0]

    @property
    def text(self) -> str:
        return f"{self.status}\n{self.headers}\n{self.body.decode('utf-8', 'replace')}"


def exchange(url: str, data: bytes, *, method: str = "POST", hang_up: bool = False) -> Answer | None:
    """Send the bytes, and read one answer; None: closed without one. `hang_up`: nothing more is sent after them."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port or 80), BOUND_S) as sock:
        try:
            sock.sendall(data)
            if hang_up:
                sock.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it was read to its end: the answer stands
        found = http.client.HTTPResponse(sock, method=method)
        try:
            found.begin()
            return Answer(found.status, found.headers, _body(found))
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return None
        except http.client.IncompleteRead:
            if hang_up:
                return None  # hypercorn takes a half-closed connection for a closed one
            raise
        finally:
            found.close()


def _body(found: http.client.HTTPResponse) -> bytes:
    if found.getheader("Content-Type", "").startswith("text/event-stream"):
        ends_at = time.monotonic() + BOUND_S
        data = b""
        while b"\ndata:" not in b"\n" + data or b"\n\n" not in data[data.index(b"data:") :]:
            assert time.monotonic() < ends_at, f"a stream without an event: {data!r}"
            piece = found.read1(65536)
            if not piece:
                break
            data += piece
        return data
    return found.read()


def judge(answer: Answer, door: Door, *, folder: str) -> None:
    """Fails if the answer is a fault of the host, tells what it should not, or is none of its door's."""
    said = answer.text
    # 501 is how the REST of A2A 0.3 spells what is not done here: a refusal with its reason, and no fault.
    is_told = answer.status == 501 and '"UnsupportedOperationError"' in said
    assert answer.status < 500 or answer.status == 503 or is_told, said
    if answer.status == 503:
        assert answer.headers["Retry-After"], said
    leaks = [leak for leak in (*LEAKS, folder) if leak in said]
    assert not leaks, (leaks, said)
    if answer.media_type == "text/event-stream":
        for line in answer.body.splitlines():
            if line.startswith(b"data:"):
                _judge_json(json.loads(line[5:]), 200, door, said)
        return
    if not answer.body:
        # The HTTP layer's own refusals have no body, nor has HEAD's answer or what was not modified.
        assert door == "any" or answer.status in (204, 304), said
        return
    if answer.status >= 400 or door == "rpc":
        assert answer.media_type in ("application/json", "application/a2a+json", "application/problem+json"), said
    if answer.media_type.endswith("json"):
        _judge_json(json.loads(answer.body, parse_constant=_no_json), answer.status, door, said)


def _judge_json(body: Any, status: int, door: Door, said: str) -> None:
    assert isinstance(body, dict), said
    assert FAULT not in said, said  # JSON-RPC and streams tell of it below a 200
    if door == "rpc":
        assert _is_call_answer(body), said
    elif status >= 400:
        spelled = {"rest": _is_status(body, status), "dialect": _is_problem(body, status)}
        spelled["any"] = any(spelled.values()) or _is_call_answer(body)
        assert spelled[door], said


def _is_call_answer(body: dict[str, Any]) -> bool:
    if body.get("jsonrpc") != "2.0" or not isinstance(body.get("id"), str | int | float | None) or "id" not in body:
        return False
    if "result" in body:
        return "error" not in body
    error = body.get("error")
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)


def _is_status(body: dict[str, Any], status: int) -> bool:
    error = body.get("error")
    return (
        isinstance(error, dict)
        and error.get("code") == status
        and isinstance(error.get("status"), str)
        and isinstance(error.get("message"), str)
        and all(isinstance(detail, dict) and "@type" in detail for detail in error["details"])
    )


def _is_problem(body: dict[str, Any], status: int) -> bool:
    return body.get("status") == status and all(isinstance(body.get(name), str) for name in ("type", "title", "code"))


def _no_json(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")
