"""No more descriptors, processes, names on the disk: the host says so, loses nothing, and goes on when they are back."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from tests.hostile.traces import spawner_of
from tests.support.daemon import Daemon, outcome_of, output_of, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]


@contextmanager
def limited(pid: int, kind: int, most: int) -> Iterator[None]:
    """Whoever has that many already gets no more."""
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, kind, before)


def descriptors(client: httpx.Client) -> int:
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("sandboxd_open_descriptors "):
            return int(float(line.split()[1]))
    raise AssertionError("no such metric")


def send(daemon: Daemon, client: httpx.Client, steps: list[list[Any]]) -> dict[str, Any]:
    answer = client.post("/message:send", json=daemon.message(daemon.envelope(daemon.request(steps))))
    assert answer.status_code == 200, answer.text
    task: dict[str, Any] = answer.json()["task"]
    return task


def assert_well(daemon: Daemon, asked: dict[str, Any]) -> None:
    """It works as before, and the question that was open is."""
    assert state_of(daemon.run([["print", "again\n"]])) == "COMPLETED"
    answered = daemon.answer(asked, wait=True)
    assert answered.status_code == 200, (answered.text, daemon.get(asked["id"])["status"], daemon.log()[-3000:])
    assert state_of(answered.json()["task"]) == "COMPLETED"


def take_the_rest(daemon: Daemon, strangers: ExitStack) -> None:
    """Connect until nobody is let in: the limit is of numbers, and below it those that were closed are free again."""
    for _ in range(10):
        stranger = strangers.enter_context(daemon.client())
        try:
            stranger.get("/healthz", timeout=1)
        except httpx.TransportError:
            return
    raise AssertionError("everybody is let in")


def test_a_daemon_without_descriptors_says_so_and_goes_on(daemon: Daemon):
    asked = daemon.run([ASK])
    assert daemon.process is not None
    with daemon.client() as client, ExitStack() as strangers:
        have = descriptors(client)
        with limited(daemon.process.pid, resource.RLIMIT_NOFILE, have - 1):
            take_the_rest(daemon, strangers)
            failed = send(daemon, client, [["print", "x\n"]])
            alive = client.get("/healthz").status_code
            measured = client.get("/metrics").status_code
            listed = client.get("/tasks").status_code
            assert "too many open files" in wait_until(lambda: daemon.log() if "Cannot accept" in daemon.log() else "").lower()

    assert (alive, measured, listed) == (200, 200, 200)
    assert (state_of(failed), outcome_of(failed)["reason"]) == ("FAILED", "spawn-failed")
    assert_well(daemon, asked)


def test_a_spawner_without_descriptors_says_so_and_goes_on(daemon: Daemon):
    asked = daemon.run([ASK])
    assert daemon.process is not None
    with limited(spawner_of(daemon.process.pid), resource.RLIMIT_NOFILE, 5):
        failed = daemon.run([["print", "x\n"]])

    assert state_of(failed) in ("FAILED", "REJECTED")
    assert "too many open files" in str(failed["status"]).lower()
    assert_well(daemon, asked)


@pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED HERE: root's processes are not counted (scripts/as-tester)")
def test_a_host_without_processes_says_so_and_goes_on(daemon: Daemon):
    asked = daemon.run([ASK])
    assert daemon.process is not None
    spawner = spawner_of(daemon.process.pid)
    with limited(daemon.process.pid, resource.RLIMIT_NPROC, 1), limited(spawner, resource.RLIMIT_NPROC, 1):
        failed = [daemon.run([["print", "x\n"]]) for _ in range(3)]
        with daemon.client() as client:
            told = [client.get(path).status_code for path in ("/readyz", "/metrics", "/tasks", f"/tasks/{asked['id']}")]

    assert [(state_of(task), outcome_of(task)["reason"]) for task in failed] == [("FAILED", "spawn-failed")] * 3
    assert "resource temporarily unavailable" in str(failed[0]["status"]).lower()
    assert told == [200] * 4
    assert_well(daemon, asked)


@pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED HERE: no mode keeps root from writing (scripts/as-tester)")
def test_a_state_folder_that_takes_no_new_names_is_no_end(daemon: Daemon):
    asked = daemon.run([ASK])
    state = daemon.folder / "state"
    state.chmod(0o500)
    try:
        done = daemon.run([["print", "kept\n"]])
        with daemon.client() as client:
            told = [client.get(path).status_code for path in ("/readyz", "/metrics", "/tasks")]
    finally:
        state.chmod(0o700)

    assert state_of(done) == "COMPLETED"  # the store has its files open
    assert output_of(daemon.get(done["id"])) == "kept\r\n"
    assert told == [200] * 3
    assert_well(daemon, asked)
