"""Does each door let in exactly those that it should?"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys

import pytest
import quart
import trio
from quart_trio import QuartTrio

from sandboxd.errors import Forbidden, Unauthenticated
from sandboxd.http.auth import Gate
from sandboxd.http.tokens import Token
from sandboxd.serving.peer import PEER, Peer
from tests.serving.door_server import served

SECRET = "s" * 43
TOKENS = (
    Token("default", hashlib.sha256(SECRET.encode()).digest()),
    Token("robot", hashlib.sha256(b"r" * 43).digest()),
)
GATE = Gate(TOKENS, spawner_pid=lambda: None)
TCP = Peer("tcp")
OPEN = Peer("tcp", open_access=True)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"Bearer {SECRET}", "token:default"),
        (f"bearer  {'r' * 43} ", "token:robot"),
    ],
)
def test_a_token_is_a_principal(header, expected):
    assert GATE.admit(TCP, {"Authorization": header}).principal == expected


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", f"Basic {SECRET}", f"Bearer {SECRET}x", "Bearer é"])
def test_anything_else_is_unauthenticated(header):
    with pytest.raises(Unauthenticated) as caught:
        GATE.admit(TCP, {"Authorization": header} if header is not None else {})

    assert SECRET not in str(caught.value)


def test_a_token_is_not_shown():
    assert "digest" not in repr(TOKENS[0])


@pytest.mark.parametrize("host", ["localhost", "localhost:8765", "127.0.0.1:8765", "[::1]:8765"])
def test_open_access_serves_this_machine(host):
    assert GATE.admit(OPEN, {"Host": host}).principal == "anyone"
    assert GATE.admit(OPEN, {"Host": host, "Origin": "http://localhost:3000"}).principal == "anyone"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": ""},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8765"},
        {"Host": "localhost", "Origin": "https://evil.example"},
        {"Host": "localhost", "Origin": "null"},
        {"Host": "localhost", "Origin": "http://[broken"},
        {"Host": "[broken"},
    ],
)
def test_open_access_refuses_what_a_foreign_page_could_send(headers):
    with pytest.raises(Forbidden):
        GATE.admit(OPEN, headers)


def test_a_refused_local_peer_is_told_why():
    with pytest.raises(Forbidden, match="started by a task"):
        GATE.admit(Peer("unix", "uid:0", "it was started by a task"), {"Authorization": f"Bearer {SECRET}"})


def whoami_app(gate):
    app = QuartTrio("small", static_folder=None)

    @app.route("/")
    async def whoami():
        try:
            return gate.admit(PEER.get(), quart.request.headers).principal
        except Forbidden as refusal:
            return refusal.message, 403

    return app


async def test_the_daemons_own_user_comes_in_by_the_unix_socket(tmp_path):
    gate = Gate((), spawner_pid=lambda: None)
    async with served(whoami_app(gate), tmp_path, who=gate.meet) as server, server.unix_client() as client:
        answer = await client.get("http://localhost/")

    assert answer.text == f"uid:{os.getuid()}"


async def test_another_user_is_refused_at_the_unix_socket(tmp_path):
    gate = Gate((), spawner_pid=lambda: None, own_uid=os.getuid() + 1)
    if os.getuid() == 0:
        pytest.skip("NOT TESTED HERE: root may use every daemon's socket")
    async with served(whoami_app(gate), tmp_path, who=gate.meet) as server, server.unix_client() as client:
        answer = await client.get("http://localhost/")

    assert answer.status_code == 403


CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
print(b"".join(iter(lambda: s.recv(4096), b"")).decode())
"""


async def test_a_descendant_of_the_spawner_is_refused_and_others_are_not(tmp_path):
    spawners = iter([os.getpid(), 2**22 - 1])
    gate = Gate((), spawner_pid=lambda: next(spawners))
    async with served(whoami_app(gate), tmp_path, who=gate.meet) as server:
        run = [sys.executable, "-c", CLIENT, str(server.unix)]
        refused = await trio.run_process(run, capture_stdout=True)
        served_one = await trio.run_process(run, capture_stdout=True)

    assert b"403" in refused.stdout
    assert b"started by a task" in refused.stdout
    assert f"uid:{os.getuid()}".encode() in served_one.stdout


async def test_a_peer_that_left_its_connection_to_another_process_is_refused(tmp_path):
    """The process that connected is gone; whoever holds the socket now cannot be looked at."""
    script = "import socket,sys; s=socket.socket(fileno=int(sys.argv[2])); s.connect(sys.argv[1])"
    gate = Gate((), spawner_pid=lambda: 2**22 - 1)
    async with served(whoami_app(gate), tmp_path, who=gate.meet) as server:
        with socket.socket(socket.AF_UNIX) as ours:
            # It blocks the loop until the child is gone, so the connection is only accepted afterwards.
            subprocess.run(  # noqa: ASYNC221 - it is to block
                [sys.executable, "-c", script, str(server.unix), str(ours.fileno())], pass_fds=[ours.fileno()], check=True
            )
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours.dup()))
            async with stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                answer = b""
                while piece := await stream.receive_some():
                    answer += piece

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"is gone" in answer
