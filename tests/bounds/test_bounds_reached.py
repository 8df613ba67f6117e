"""Is a bound that is reached told as such, counted, and open again afterwards?"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.daemon import ADAPTER, Daemon, outcome_of, output_of, state_of, wait_until

HANG = [["print", "up\n"], ["hang"]]


def count(daemon: Daemon, bound: str) -> float:
    with daemon.client() as client:
        text = client.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith(f'sandboxd_bounds_reached_total{{bound="{bound}"}}')]
    return float(line.rpartition(" ")[2])


def send(daemon: Daemon, steps: Any, **changes: Any) -> httpx.Response:
    body = daemon.message(daemon.envelope(daemon.request(steps), **changes))
    body["configuration"] = {"returnImmediately": True}
    with daemon.client() as client:
        return client.post("/message:send", json=body)


def check_refused(answer: httpx.Response, bound: str, *, status: int = 429) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["retry-after"] == "1"
    metadata = [detail.get("metadata", {}) for detail in answer.json()["error"]["details"]]
    assert bound in [found.get("bound") for found in metadata]


@pytest.mark.parametrize("bound", ["max_tasks", "max_tasks_per_instance", "max_tasks_per_principal"])
def test_one_task_too_many_is_refused_and_the_next_is_taken(make_daemon, bound):
    daemon = make_daemon(extra=f"[limits]\n{bound} = 2\n")
    first = send(daemon, HANG).json()["task"]
    send(daemon, HANG)
    refused = send(daemon, HANG)
    counted = count(daemon, bound)
    with daemon.client() as client:
        client.post(f"/tasks/{first['id']}:cancel")
    again = wait_until(lambda: answer if (answer := send(daemon, HANG)).status_code == 200 else None)

    check_refused(refused, bound)
    assert counted == 1
    assert state_of(again.json()["task"]) == "WORKING"


def test_one_stream_too_many_is_refused_and_the_next_is_taken(make_daemon):
    daemon = make_daemon(extra="[limits]\nmax_subscribers = 3\nmax_subscribers_per_task = 2\n")
    one, two = (send(daemon, HANG).json()["task"]["id"] for _ in range(2))
    with following(daemon, one), following(daemon, one):
        with daemon.client() as client:
            per_task = client.post(f"/tasks/{one}:subscribe")
        with following(daemon, two), daemon.client() as client:
            in_all = client.post(f"/tasks/{two}:subscribe")
            unsent = client.post("/message:stream", json=daemon.message(daemon.envelope(daemon.request(HANG))))
            listed = client.get("/tasks").json()["tasks"]

    check_refused(per_task, "max_subscribers_per_task")
    check_refused(in_all, "max_subscribers")
    check_refused(unsent, "max_subscribers")
    assert len(listed) == 2  # refused before anything was done
    wait_until(lambda: can_follow(daemon, one))


def test_a_command_with_too_many_events_is_ended_and_says_so(make_daemon):
    daemon = make_daemon(extra="[limits]\nmax_events = 100\n")
    task = send(daemon, [["flood", 12_000_000]]).json()["task"]
    ended = daemon.until(task["id"], "FAILED", "COMPLETED", timeout_s=60)

    assert outcome_of(ended)["reason"] == "event-limit"
    assert count(daemon, "max_events") == 1


def test_a_store_that_has_its_size_takes_no_task_and_says_so(make_daemon):
    daemon = make_daemon(extra='[limits]\nmax_store = "2MiB"\n')
    task = daemon.run([["flood", 3_000_000]])
    refused = wait_until(lambda: answer if (answer := send(daemon, HANG)).status_code != 200 else None)
    ready = httpx.get(f"{daemon.url}/readyz", trust_env=False)

    check_refused(refused, "max_store", status=503)
    assert count(daemon, "max_store") >= 1
    assert ready.status_code == 503
    assert any("are its limit" in check.get("why", "") for check in ready.json()["checks"])
    assert len(output_of(daemon.get(task["id"]))) > 2_900_000  # what ran was kept whole


def test_a_disk_below_its_floor_takes_no_task_and_says_so(make_daemon):
    daemon = make_daemon(extra='[limits]\nmin_free = "1048576GiB"\n')
    refused = send(daemon, HANG)

    check_refused(refused, "min_free", status=503)
    assert count(daemon, "min_free") == 1


def test_a_body_a_header_and_a_text_too_large_are_refused_and_counted(make_daemon):
    daemon = make_daemon(extra='[limits]\nmax_body = "1MiB"\n')
    with daemon.client() as client:
        body = client.post("/message:send", content=b"x" * (1024 * 1024 + 1), headers={"Content-Type": "application/json"})
        message = daemon.message(daemon.envelope(daemon.request(HANG)), text="x" * 131_072)
        text = client.post("/message:send", json=message)
        with contextlib.suppress(httpx.HTTPError):
            assert client.get("/tasks", headers={"X": "y" * 200_000}).status_code in (400, 431)

    assert (body.status_code, text.status_code) == (413, 400)
    assert ADAPTER in str(message)
    assert [count(daemon, bound) for bound in ("max_body", "max_header", "max_text")] == [1, 1, 1]


def test_output_over_its_cap_is_cut_with_a_mark_and_counted(daemon: Daemon):
    task = daemon.run([["flood", 18_000_000]], wait=False)
    (artifact,) = daemon.until(task["id"], "COMPLETED", timeout_s=60)["artifacts"]

    assert "cut" in str(artifact["metadata"]) or "dropped" in str(artifact["metadata"]), artifact["metadata"]
    assert count(daemon, "output") == 1


def test_clients_that_never_read_hold_a_bounded_amount_and_the_rest_is_refused(make_daemon):
    daemon = make_daemon(extra='[limits]\nmax_unsent = "16MiB"\n')
    task = daemon.run([["flood", 6_000_000]])
    before = rss_bytes(daemon)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(unread(daemon, f"/tasks/{task['id']}"))
        with daemon.client() as client, ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(client.get, f"/tasks/{task['id']}") for _ in range(4)]
            refused = [answer.result() for answer in answers]
            small = client.get("/tasks?includeArtifacts=false")
        held = rss_bytes(daemon) - before

    for answer in refused:
        check_refused(answer, "max_unsent")
    assert small.status_code == 200
    assert held < 120 * 1024 * 1024  # measured: 30 MiB; unbounded it is 20 times 6 MiB, and what it takes to spell them
    assert wait_until(lambda: output_of(daemon.get(task["id"])))


@contextlib.contextmanager
def following(daemon: Daemon, task_id: str) -> Iterator[None]:
    with daemon.client() as client, client.stream("POST", f"/tasks/{task_id}:subscribe") as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()  # kept: the answer is closed with it
        next(lines)
        yield


def can_follow(daemon: Daemon, task_id: str) -> bool:
    with daemon.client() as client, client.stream("POST", f"/tasks/{task_id}:subscribe") as answer:
        return answer.status_code == 200


@contextlib.contextmanager
def unread(daemon: Daemon, path: str) -> Iterator[None]:
    """A client that asks and takes nothing."""
    host, _, port = daemon.url.removeprefix("http://").partition(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((host, int(port)))
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nA2A-Version: 1.0\r\nAuthorization: Bearer {daemon.token}\r\n\r\n"
        sock.sendall(head.encode())
        yield


def rss_bytes(daemon: Daemon) -> int:
    assert daemon.process is not None
    with open(f"/proc/{daemon.process.pid}/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024
