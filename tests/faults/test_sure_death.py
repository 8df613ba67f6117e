"""Kills, crashes and restarts: nothing lives on, nothing is told wrong."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from tests.support.daemon import Daemon, outcome_of, output_of, processes_with, prompt_of, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]
HOSTILE = ["shell", "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM HUP INT; sleep 60' &) ; sleep 60"]


def test_kill_9_of_the_daemon_while_a_task_waits(daemon: Daemon):
    task = daemon.run([HOSTILE, ASK])
    assert processes_with(task["id"])

    daemon.kill()
    wait_until(lambda: not processes_with(task["id"]), timeout_s=5, what="the end of every child")
    daemon.start()

    after = daemon.get(task["id"])
    assert state_of(after) == "FAILED"
    assert outcome_of(after)["reason"] == "daemon-died"
    assert outcome_of(after)["fail_kind"] == "infrastructure"
    assert daemon.answer(task, "y").status_code == 409


def test_an_answered_prompt_is_remembered_across_a_restart(daemon: Daemon):
    task = daemon.run([ASK])
    answered = daemon.answer(task, "y", wait=True)
    assert answered.status_code == 200
    daemon.stop()
    daemon.start()

    again = daemon.answer(task, "y", prompt_id=prompt_of(task)["prompt_id"])

    assert again.status_code == 409
    assert "acceptedMessageId" in again.text


def test_stopping_the_daemon_ends_its_runs_and_says_so(daemon: Daemon):
    task = daemon.run([HOSTILE, ASK])

    assert daemon.stop() == 0

    assert processes_with(task["id"]) == []
    daemon.start()
    after = daemon.get(task["id"])
    assert (state_of(after), outcome_of(after)["reason"]) == ("FAILED", "daemon-stopped")


@pytest.mark.parametrize("round_", range(5))
def test_a_daemon_that_is_stopped_once_its_doors_are_open_stops_in_order(make_daemon: Callable[..., Daemon], round_: int):
    daemon = make_daemon()  # it may not have said yet that it is ready

    assert daemon.stop() == 0
    assert "event=stopped" in daemon.log()


def test_a_daemon_that_is_told_twice_stops_in_the_same_order(daemon: Daemon):
    task = daemon.run([HOSTILE, ASK])
    assert daemon.process is not None
    daemon.process.terminate()
    wait_until(lambda: "event=stopping" in daemon.log(), timeout_s=20, what="the first wish to be heard")

    assert daemon.stop() == 0  # the tree takes its time

    assert "already stopping" in daemon.log()
    assert processes_with(task["id"]) == []
    assert "event=stopped" in daemon.log()


@pytest.mark.parametrize("round_", range(5))
def test_a_tree_that_ignores_everything_is_gone_after_the_deadline(shared: Daemon, round_):
    began = time.monotonic()
    task = shared.run([["ignore", "SIGTERM"], ["ignore", "SIGINT"], HOSTILE, ["print", "up\n"], ["hang"]], timeout_seconds=1)
    elapsed_s = time.monotonic() - began

    assert outcome_of(task)["reason"] == "timeout"
    assert "up" in output_of(task)
    assert processes_with(task["id"]) == []
    assert elapsed_s < 1 + 1 + 1 + 10  # its limit, INT's and TERM's grace, and a busy machine


def test_a_background_child_does_not_outlive_its_run(daemon: Daemon):
    task = daemon.run([["shell", "sleep 60"], ["print", "done\n"]])

    assert state_of(task) == "COMPLETED"
    assert processes_with(task["id"]) == []


def test_a_background_child_that_prints_for_ever_does_not_keep_its_run_alive(shared: Daemon):
    began = time.monotonic()
    task = shared.run([["shell", "while :; do echo x; sleep 0.1; done"], ["print", "done\n"]], input_mode=...)

    assert state_of(task) == "COMPLETED"
    assert time.monotonic() - began < 8
    assert "done" in output_of(task, "stdout")
    assert processes_with(task["id"]) == []


@pytest.mark.parametrize("round_", range(2))
def test_every_answer_that_was_acknowledged_outlives_a_kill_at_that_moment(daemon: Daemon, round_):
    tasks = [daemon.run([ASK, ASK]) for _ in range(3)]
    answered: dict[str, int] = {}

    def answer(task):
        with suppress(httpx.TransportError):  # the daemon was killed before it answered
            answered[task["id"]] = daemon.answer(task, "y").status_code

    with ThreadPoolExecutor(3) as pool:
        for task in tasks:
            pool.submit(answer, task)
        wait_until(lambda: answered, what="the first acknowledgement")
        daemon.kill()
    wait_until(lambda: not any(processes_with(task["id"]) for task in tasks), what="the end of every child")
    daemon.start()

    assert set(answered.values()) == {200}
    for task in tasks:
        again = daemon.answer(task, "y")
        assert again.status_code == 409
        assert task["id"] not in answered or "acceptedMessageId" in again.text
        assert outcome_of(daemon.get(task["id"]))["reason"] == "daemon-died"
