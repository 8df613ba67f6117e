"""On a host of many runs, does each of them cost what it costs alone?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from sandboxd.policy.model import Allowed
from sandboxd.runner import birth, cgroup
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.process import Process
from sandboxd.runner.protocol import SpawnFailed
from sandboxd.runner.witness import Witness, availability
from tests.runner.workshop import Workshop, finish, read_until, started, wait_until

MANY: Final = 20
# The one in the middle ends, so the one that asks has no parent of its run left.
ORPHAN = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        input("Go on? ")
        print("went on")
    os._exit(0)
time.sleep(60)
"""
# Greets as a spawner does, and is slower than anything; each request gets its reply, and none in the time given for one.
SLOW_SPAWNER = """
import json, socket, struct, sys, time
sock = socket.socket(fileno=int(sys.argv[1]))

def hear():
    (size,) = struct.unpack("!I", sock.recv(4, socket.MSG_WAITALL))
    return json.loads(sock.recv(size, socket.MSG_WAITALL))

def say(frame):
    body = json.dumps(frame).encode()
    sock.sendall(struct.pack("!I", len(body)) + body)

hear()
say({"ready": True, "cgroup": "", "no_cgroup": "it is a test's", "swept": 0, "adapters": {}, "levels": {}})
while True:
    asked = hear()
    time.sleep(0.6)
    say({"re": asked["id"], "failed": ["start-failed", "slowly"]})
"""
# Ends forty runs in one go, in a process of its own, which reaps everything. Prints how often it looked at all of /proc.
ENDING = """
import json, os, sys, time
from pathlib import Path
from sandboxd.runner import cgroup, linux, tree
from sandboxd.runner.confiner import Confined
from sandboxd.runner.ending import Ending, Run

looks, look_at_all = [], tree.look_at_all
tree.look_at_all = lambda: looks.append(1) or look_at_all()
linux.become_subreaper()
parent = Path(sys.argv[1]) if sys.argv[1] else None
runs, told, ends_at = {}, [], time.monotonic() + 30
ending = Ending(runs, told.append, lambda confined: None)
for number in range(40):
    place = None if parent is None else cgroup.make_run(parent, f"t-{number}", {})
    procs = None if place is None else cgroup.open_procs(place)
    ready, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if procs is not None:
            os.write(procs, b"0")
        os.fork()
        os.write(write, b".")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1), os.read(ready, 1)
    runs[number] = Run(number, tree.Tree.of(f"t-{number}", pid), place, Confined(), asked_by=[number])
    runs[number].end_by = ends_at
while runs and time.monotonic() < ends_at + 5:
    ending.reap()
    ending.end_some()
    time.sleep(0.001)
replies = [frame["left"] for frame in told if "re" in frame]
print(json.dumps({"looks": len(looks), "replies": replies, "here": tree.children_of(os.getpid())}))
"""


@asynccontextmanager
async def others(spawner: Spawner, shop: Workshop) -> AsyncIterator[Sequence[Process]]:
    """Runs that go on meanwhile."""
    shop.write("exec sleep 60", "runner.sh")
    runs = [started(await spawner.start(shop.request("bash", task_id=f"other-{number}"))) for number in range(MANY)]
    yield runs
    for run in runs:
        await run.end_tree()
        run.close()


async def test_others_are_not_looked_at_to_know_who_reads(shop: Workshop, ending_spawner: Spawner):
    shop.write(ORPHAN)
    async with others(ending_spawner, shop) as runs:
        process = started(await ending_spawner.start(shop.request(terminal=True)))
        assert process.terminal_fd is not None
        await read_until(process.terminal_fd, b"Go on? ")
        strays = set(process.strays())
        await process.end_tree()
        process.close()

    assert strays & {run.pid for run in runs} == set()
    assert strays


@pytest.mark.skipif(bool(availability()), reason=f"NOT TESTED HERE: the kernel does not say who reads: {availability()}")
async def test_who_lost_its_parent_is_found_to_ask_among_many_runs(shop: Workshop, ending_spawner: Spawner):
    shop.write(ORPHAN)
    async with others(ending_spawner, shop):
        process = started(await ending_spawner.start(shop.request(terminal=True)))
        assert process.terminal_fd is not None
        witness = Witness(process.terminal_fd, process.pid, process.strays)
        await read_until(process.terminal_fd, b"Go on? ")
        is_seen = await trio.to_thread.run_sync(wait_until, lambda: witness.look().reading, 20)
        os.write(process.terminal_fd, b"\n")
        await read_until(process.terminal_fd, b"went on")
        is_over = await trio.to_thread.run_sync(wait_until, lambda: witness.look().reading is False, 20)
        await process.end_tree()
        process.close()

    assert (is_seen, is_over) == (True, True)


async def test_a_spawner_that_is_slow_and_answers_is_not_taken_for_one_that_hangs(shop, monkeypatch, tmp_path):
    monkeypatch.setattr("sandboxd.runner.client.REPLY_S", 3.0)
    script = tmp_path / "slow.py"
    script.write_text(SLOW_SPAWNER)
    monkeypatch.setattr(birth, "command", lambda fd: [sys.executable, str(script), str(fd)])
    results: list[object] = []

    async def start(spawner: Spawner) -> None:
        results.append(await spawner.start(shop.request()))

    async with open_spawner(shop.setup()) as spawner:
        async with trio.open_nursery() as nursery:
            for _ in range(7):  # the last waits for longer than the limit
                nursery.start_soon(start, spawner)
        os.kill(spawner.pid, 9)

    assert results == [SpawnFailed("start-failed", "slowly")] * 7


async def test_a_daemon_that_was_held_up_does_not_take_its_spawner_for_one_that_hangs(shop, spawner, monkeypatch):
    monkeypatch.setattr("sandboxd.runner.client.REPLY_S", 2.0)
    results: list[object] = []

    async def preview() -> None:
        results.append(await spawner.preview(shop.request()))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(preview)
            await trio.testing.wait_all_tasks_blocked()
            time.sleep(4)  # noqa: ASYNC251  # this is what is tested

    assert isinstance(results[0], Allowed)
    assert spawner.is_alive


@pytest.mark.parametrize("has_cgroup", [True, False], ids=["cgroup", "sweep"])
def test_many_runs_that_end_together_are_ended_by_few_looks_at_all_processes(has_cgroup):
    parent = cgroup.make_base(os.environ.get("SANDBOXD_TEST_CGROUP")) if has_cgroup else None
    if isinstance(parent, cgroup.NoCgroup):
        pytest.skip(f"NOT TESTED HERE: ending many runs by their cgroups: {parent.why}")
    path = ":".join([str(Path(__file__).resolve().parents[2]), *sys.path])
    try:
        command = [sys.executable, "-c", ENDING, str(parent or "")]
        told = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": path}, timeout=60, check=False)
    finally:
        is_removed = parent is None or cgroup.remove(parent)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)

    assert found["replies"] == [[]] * 40
    assert found["here"] == []
    assert is_removed
    assert found["looks"] <= 10  # with a cgroup none, unless the machine is so busy that a kill takes long


async def test_many_runs_that_are_asked_to_end_at_once_all_end(shop: Workshop, ending_spawner: Spawner):
    shop.write("sleep 60 & exec sleep 60", "runner.sh")
    left: list[tuple[int, ...]] = []
    runs = [started(await ending_spawner.start(shop.request("bash", task_id=f"t-{number}"))) for number in range(MANY)]

    async def stop(run: Process) -> None:
        left.append(await run.stop(grace_s=0.05))
        run.close()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for run in runs:
                nursery.start_soon(stop, run)

    assert left == [()] * MANY
    assert shop.alive() == set()
    shop.write("exit 0", "runner.sh")
    assert (await finish(await ending_spawner.start(shop.request("bash"))))[0].code == 0
