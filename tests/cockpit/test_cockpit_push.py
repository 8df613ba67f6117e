"""Do a host's push notifications make a cockpit look, and nothing else, and nobody else's anything?"""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from sandboxd.cockpit import watch
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.config import load_config
from sandboxd.cockpit.push_source import PushSource
from sandboxd.config_doors import TcpAddress
from sandboxd.errors import LoadError
from tests.cockpit.bridge import answer, asked, person, somebody, stands, web
from tests.fakes.executor import Executor
from tests.support.daemon import Daemon, output_of, prompt_of

ALICE = somebody("alice")
ALLOW = '\n[push]\nallow = ["127.0.0.0/8"]\n'


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("pushing"), str(node), extra=ALLOW)
    daemon.start()
    yield daemon
    daemon.end()


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def test_questions_come_by_push_where_no_stream_is_open(tmp_path, pushing, port, monkeypatch):
    monkeypatch.setattr(watch, "PUSHED_EVERY_S", 3600.0)  # only a notification makes it look a second time
    here = HostAddress("here", pushing.url, "jsonrpc", pushing.token, f"http://127.0.0.1:{port}/push/here")
    steps = [["ask", "First? [y/N] "], ["ask", "Second? [y/N] "]]
    task = await trio.to_thread.run_sync(lambda: pushing.run(steps))
    async with web(tmp_path, here, people=(person("alice"),), doors={"tcp": TcpAddress("127.0.0.1", port)}) as page:
        records = page.controller.records
        first = await asked(records, "here", prompt_of(task)["prompt_id"])
        await answer(page.controller, first, ALICE, "cli", {"text": "y"})
        await stands(records, first, "closed")
        second = await trio.to_thread.run_sync(lambda: pushing.until(task["id"], "INPUT_REQUIRED", timeout_s=30))
        record = await asked(records, "here", prompt_of(second)["prompt_id"])
        await answer(page.controller, record, ALICE, "cli", {"text": "n"})
        await stands(records, record, "closed")

    done = await trio.to_thread.run_sync(lambda: pushing.until(task["id"], "COMPLETED", timeout_s=30))
    assert output_of(done).count("answer:") == 2


async def test_a_host_that_cannot_push_is_followed_by_streams(tmp_path, shared, port):
    url = f"http://127.0.0.1:{port}/push/here"  # the daemon's own policy lets it send to public addresses alone
    here = HostAddress("here", shared.url, "rest", shared.token, url)
    task = await trio.to_thread.run_sync(lambda: shared.run([["ask", "Proceed? [y/N] "]]))
    async with web(tmp_path, here, people=(person("alice"),), doors={"tcp": TcpAddress("127.0.0.1", port)}) as page:
        record = await asked(page.controller.records, "here", prompt_of(task)["prompt_id"])
        await answer(page.controller, record, ALICE, "cli", {"text": "y"})
        await stands(page.controller.records, record, "closed")
        assert page.controller.pushes is not None
        assert not page.controller.pushes.serves("here")


async def test_nobody_but_the_host_makes_the_cockpit_look(tmp_path, port):
    with Executor() as executor:
        lab = HostAddress("lab", executor.url, push_url=f"http://127.0.0.1:{port}/push/lab")
        doors = {"tcp": TcpAddress("127.0.0.1", port)}
        async with web(tmp_path, lab, people=(person("alice"),), doors=doors) as page, page.client("alice") as alice:
            for path, headers in (
                ("/push/lab", {}),
                ("/push/lab", {"X-A2A-Notification-Token": "guess"}),
                ("/push/elsewhere", {"X-A2A-Notification-Token": "guess"}),
            ):
                refused = await alice.post(path, json={}, headers=headers)
                assert refused.status_code == 401, refused.text
            assert (await alice.get("/push/lab")).status_code == 405


def source(folder: Path) -> PushSource:
    return PushSource(folder, {name: HostAddress(name, "http://h", push_url=f"http://c/push/{name}") for name in ("a", "b")})


def test_tokens_outlive_a_restart_and_no_two_hosts_have_the_same(tmp_path):
    first, again = source(tmp_path), source(tmp_path)
    headers = {"x-a2a-notification-token": first._of("token", "a")}

    assert again.is_from("a", headers, b"", 0)
    assert not again.is_from("b", headers, b"", 0)
    assert (tmp_path / "push.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("changes", "holds"),
    [({}, True), ({"body": b"other"}, False), ({"key": "sign:b"}, False), ({"late_s": 400}, False), ({"spelled": "v1"}, False)],
)
def test_a_signature_that_stands_there_must_hold(tmp_path, changes, holds):
    pushes, at = source(tmp_path), int(time.time())
    key = pushes._of(*changes.get("key", "sign:a").split(":"))
    mac = hmac.new(key.encode(), f"{at}.".encode() + b"body", hashlib.sha256).hexdigest()
    signature = changes.get("spelled", f"t={at},v1={mac}")
    headers = {"x-a2a-notification-token": pushes._of("token", "a"), "x-aiwg-signature": signature}

    assert pushes.is_from("a", headers, changes.get("body", b"body"), at + changes.get("late_s", 0)) is holds


@pytest.mark.parametrize(
    ("host", "web_table", "said"),
    [
        ('push-url = "https://cockpit.example/push/lab"', "", "web"),
        ('push-url = "https://cockpit.example/push/other"', '[web]\ntcp = "127.0.0.1:0"', "push-url"),
        ('push-url = "ftp://cockpit.example/push/lab"', '[web]\ntcp = "127.0.0.1:0"', "push-url"),
    ],
)
def test_a_push_url_that_leads_nowhere_is_refused(tmp_path, host, web_table, said):
    file = tmp_path / "cockpit.toml"
    file.write_text(f'state-dir = "state"\n[[host]]\nname = "lab"\nurl = "https://lab.example"\n{host}\n{web_table}\n')

    with pytest.raises(LoadError, match=said):
        load_config(file)
