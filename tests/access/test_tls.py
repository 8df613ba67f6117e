"""Does the TCP door speak TLS, and know a client by its certificate?"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.certificates import Authority
from tests.support.daemon import HITL, Daemon, prompt_of
from tests.support.tokens import answer_body, sandboxd

ASK = ["ask", "Proceed? [y/N] "]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture
def secure(tmp_path: Path, node: Path, authority: Authority) -> Any:
    made: list[Daemon] = []

    def make(*, asks_certificate: bool) -> Daemon:
        cert, key = authority.issue("server")
        tls = f'cert = "{cert}", key = "{key}"' + (f', client_ca = "{authority.ca}"' if asks_certificate else "")
        folder = tmp_path / "host"
        folder.mkdir()
        daemon = Daemon(folder, str(node))
        daemon.config.write_text(
            daemon.config.read_text().replace("allow_root = true", f"allow_root = true\ntls = {{ {tls} }}")
        )
        made.append(daemon)
        daemon.start()
        daemon.url = daemon.url.replace("http:", "https:")
        return daemon

    yield make
    for daemon in made:
        daemon.end()


def client(daemon: Daemon, authority: Authority, name: str = "", token: str = "") -> httpx.Client:
    context = ssl.create_default_context(cafile=str(authority.ca))
    if name:
        context.load_cert_chain(*authority.issue(name))
    headers = {"A2A-Version": "1.0", "A2A-Extensions": HITL} | ({"Authorization": f"Bearer {token}"} if token else {})
    return httpx.Client(base_url=daemon.url, verify=context, headers=headers, timeout=20, trust_env=False)


def test_a_whole_task_goes_over_tls(secure: Callable[..., Daemon], authority: Authority):
    daemon = secure(asks_certificate=False)
    with client(daemon, authority, token=daemon.token) as known, client(daemon, authority) as anyone:
        body = daemon.message(daemon.envelope(daemon.request([ASK, ["print", "x" * 300_000]])))
        task = known.post("/message:send", json=body).json()["task"]
        with known.stream("GET", f"/tasks/{task['id']}:subscribe") as stream:
            known.post("/message:send", json=answer_body(task, prompt_of(task)["prompt_id"]))
            events = [line for line in stream.iter_lines() if line.startswith("data:")]
        card = anyone.get("/.well-known/agent-card.json").json()
        refused = anyone.get("/tasks")

    assert "TASK_STATE_COMPLETED" in events[-1]
    assert card["url"] == daemon.url
    assert refused.status_code == 401


def test_clear_text_and_silence_hold_up_nobody(secure: Callable[..., Daemon], authority: Authority):
    daemon = secure(asks_certificate=False)
    port = int(daemon.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as silent, socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(10)
        said = plain.recv(100)
        with client(daemon, authority, token=daemon.token) as known:
            assert known.get("/tasks").status_code == 200
        assert not said.startswith(b"HTTP")
        assert daemon.stop() == 0
        silent.settimeout(10)
        assert silent.recv(1) == b""
    assert "Cannot" not in (daemon.folder / "log").read_text()


def test_a_certificate_is_a_principal_with_scopes(secure: Callable[..., Daemon], authority: Authority):
    daemon = secure(asks_certificate=True)
    sandboxd(daemon, "tokens", "create", "robot", "--scope", "send", "--certificate", "orchestrator")
    with client(daemon, authority, "orchestrator") as robot, client(daemon, authority, "stranger") as stranger:
        task = robot.post("/message:send", json=daemon.message()).json()["task"]
        listed = robot.get("/tasks").json()["totalSize"]
        unknown = stranger.get("/tasks")
        wrong_token = robot.get("/tasks", headers={"Authorization": "Bearer wrong"})
        card = robot.get("/.well-known/agent-card.json").json()
    with client(daemon, authority, "stranger", token=daemon.token) as by_token:
        seen = by_token.get(f"/tasks/{task['id']}")
    sandboxd(daemon, "tokens", "revoke", "robot")
    with client(daemon, authority, "orchestrator") as robot:
        revoked = robot.get("/tasks")
    (record,) = [json.loads(line) for line in sandboxd(daemon, "audit", "export", "--json").stdout.splitlines()]

    assert listed == 1
    assert (unknown.status_code, wrong_token.status_code, seen.status_code, revoked.status_code) == (401, 401, 200, 401)
    assert (record["principal"], record["action"]) == ("cert:orchestrator", "send")
    assert {"bearer", "mtls"} <= card["securitySchemes"].keys()


def test_without_a_certificate_of_the_right_authority_there_is_no_handshake(
    secure: Callable[..., Daemon], authority: Authority, tmp_path: Path
):
    daemon = secure(asks_certificate=True)
    other = Authority(tmp_path / "other")
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.load_cert_chain(*other.issue("orchestrator"))

    for tried in (client(daemon, authority, token=daemon.token), httpx.Client(base_url=daemon.url, verify=context)):
        with tried, pytest.raises(httpx.TransportError):
            tried.get("/.well-known/agent-card.json")


def test_a_key_that_others_can_read_is_refused_at_start(tmp_path: Path, node: Path, authority: Authority):
    cert, key = authority.issue("careless")
    key.chmod(0o644)
    daemon = Daemon(tmp_path, str(node))
    tls = f'tls = {{ cert = "{cert}", key = "{key}" }}'
    daemon.config.write_text(daemon.config.read_text().replace("allow_root = true", f"allow_root = true\n{tls}"))

    with pytest.raises(AssertionError, match="others can use it"):
        daemon.start()
