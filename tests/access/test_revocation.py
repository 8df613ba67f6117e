"""Does a token that is revoked, or has expired, end what its bearer has open?"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from sandboxd.http import token_book
from sandboxd.http.presence import LOOK_S
from tests.support.daemon import Daemon, state_of, wait_until
from tests.support.tokens import bearer, make_token, sandboxd

ASK = ["ask", "Proceed? [y/N] "]
WITHIN_S = 10.0  # it is `LOOK_S`, and the machine has other work


@pytest.fixture
def revoke(daemon: Daemon) -> Callable[[str], None]:
    def revoke(name: str) -> None:
        sandboxd(daemon, "tokens", "revoke", name)

    return revoke


def lines_of(stream: Iterator[str], seen: list[str]) -> str:
    """Read until the stream ends; how it ended."""
    try:
        seen.extend(stream)
    except httpx.TransportError as error:
        return type(error).__name__
    return "whole"


@pytest.mark.parametrize("door", ["rest", "rpc"])
def test_an_open_stream_breaks_off_and_the_task_goes_on(daemon: Daemon, revoke: Callable[[str], None], door: str):
    token = make_token(daemon, "relay", "view")
    other = make_token(daemon, "other", "view")
    task = daemon.run([ASK])
    call = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task["id"]}}
    seen: list[str] = []
    with bearer(daemon, token) as client, bearer(daemon, other) as untouched:
        sent = ("POST", f"/tasks/{task['id']}:subscribe", None) if door == "rest" else ("POST", "/", call)
        with (
            client.stream(sent[0], sent[1], json=sent[2]) as stream,
            untouched.stream(sent[0], sent[1], json=sent[2]) as going_on,
        ):
            lines, others = stream.iter_lines(), going_on.iter_lines()
            wait_until(lambda: next(lines).startswith("data: "), what="the first event")
            revoke("relay")
            began = time.monotonic()
            ended = lines_of(lines, seen)
            took_s = time.monotonic() - began
            daemon.answer(task)
            assert lines_of(others, seen) == "whole"
        refused = client.get(f"/tasks/{task['id']}")

    assert ended != "whole", "nobody takes what broke off for the end"
    assert took_s < WITHIN_S
    assert refused.status_code == 401
    assert state_of(daemon.until(task["id"], "COMPLETED")) == "COMPLETED"


def test_a_send_that_waits_is_refused_and_its_task_goes_on(daemon: Daemon, revoke: Callable[[str], None]):
    token = make_token(daemon, "sender", "send")
    body = daemon.message(daemon.envelope(daemon.request([["sleep", 20_000]])))
    found: dict[str, Any] = {}

    def send() -> None:
        with bearer(daemon, token) as client:
            found["answer"] = client.post("/message:send", json=body)

    waiting = threading.Thread(target=send)
    waiting.start()
    with daemon.client() as client:
        listed = wait_until(lambda: client.get("/tasks").json()["tasks"], what="the task")
    revoke("sender")
    waiting.join(WITHIN_S)

    assert found["answer"].status_code == 401
    assert found["answer"].headers["www-authenticate"].startswith("Bearer")
    assert state_of(daemon.get(listed[0]["id"])) == "WORKING"


def test_a_token_whose_time_is_over_ends_its_streams(daemon: Daemon):
    token = make_token(daemon, "short", "view", options=("--days", "1"))
    book = daemon.folder / "state" / token_book.FILE_NAME
    task = daemon.run([ASK])
    with bearer(daemon, token) as client, client.stream("POST", f"/tasks/{task['id']}:subscribe") as stream:
        lines = stream.iter_lines()
        wait_until(lambda: next(lines).startswith("data: "), what="the first event")
        spelled = json.loads(book.read_text())
        spelled["tokens"][0]["expires_at"] = "2020-01-01T00:00:00.000Z"  # a day has passed
        book.write_text(json.dumps(spelled))
        assert lines_of(lines, []) != "whole"


def test_who_stays_is_not_looked_at_for_nothing(daemon: Daemon):
    token = make_token(daemon, "stays", "view")
    task = daemon.run([ASK])
    with bearer(daemon, token) as client, client.stream("POST", f"/tasks/{task['id']}:subscribe") as stream:
        lines = stream.iter_lines()
        wait_until(lambda: next(lines).startswith("data: "), what="the first event")
        comments = 0
        began = time.monotonic()
        while comments < 2:  # a comment after every silence of `ping_s`
            comments += next(lines).startswith(":")
        assert time.monotonic() - began > 2 * LOOK_S
        daemon.answer(task)
        assert lines_of(lines, []) == "whole"
