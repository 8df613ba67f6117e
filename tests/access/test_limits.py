"""Does the door bound what a request may be?"""

from __future__ import annotations

import json
import socket

import pytest

from tests.support.daemon import Daemon


def say(daemon: Daemon, request: bytes) -> bytes:
    """Send it and read until the daemon closes."""
    port = int(daemon.url.rpartition(":")[2])
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(request)
            while piece := connection.recv(65_536):
                said += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # it has stopped reading, which is the point
    return said


@pytest.mark.parametrize("headers", [b"X: " + b"a" * 200_000, b"\r\n".join([b"X: a"] * 50_000)], ids=["long", "many"])
def test_headers_have_a_bound(shared: Daemon, headers):
    said = say(shared, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n\r\n")

    assert said == b"" or said.split()[1] in (b"400", b"431"), said[:200]
    assert say(shared, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_body_and_depth_have_a_bound(shared: Daemon):
    with shared.client(headers={"Content-Type": "application/json"}) as client:
        large = client.post("/message:send", content=json.dumps({"x": "a" * 1024 * 1024}).encode())
        deep = client.post("/message:send", content=b'{"a":' * 101 + b"1" + b"}" * 101)

    assert (large.status_code, deep.status_code) == (413, 400)
