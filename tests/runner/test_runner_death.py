"""When the spawner or the daemon is killed, does every run end?"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest
import trio
import trio.testing

from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.process import ExitStatus, Process
from sandboxd.runner.protocol import SpawnFailed
from sandboxd.runner.tree import look
from tests.runner.workshop import NO_CGROUP, Workshop, start_daemon, started, wait_until

STUBBORN = """
import os, signal, time
for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        open("deep", "w").close()
    time.sleep(60)
time.sleep(60)
"""


@pytest.mark.parametrize("terminal", [False, True])
async def test_kill_9_of_the_spawner_ends_every_run_and_says_so(shop, ending_spawner: Spawner, terminal):
    shop.write(STUBBORN)
    process = started(await ending_spawner.start(shop.request(terminal=terminal)))
    await shop.wait_for("deep")

    os.kill(ending_spawner.pid, signal.SIGKILL)

    with trio.fail_after(20):
        assert await process.wait() == ExitStatus(spawner_died=True)
        await ending_spawner.wait_died()
    assert shop.alive() == set()
    assert not process.is_alive()
    assert await process.end_tree() == ()
    assert not ending_spawner.is_alive
    process.close()


async def test_a_dead_spawner_starts_nothing_more(shop, spawner):
    os.kill(spawner.pid, signal.SIGKILL)
    with trio.fail_after(20):
        results = [await spawner.start(shop.request()), await spawner.preview(shop.request())]

    assert all(isinstance(result, SpawnFailed) and result.reason == "spawner-died" for result in results)


async def test_those_who_wait_for_a_start_hear_of_the_death(shop, spawner):
    os.kill(spawner.pid, signal.SIGSTOP)
    results = []

    async def start() -> None:
        results.append(await spawner.start(shop.request()))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(100):  # more than the queue holds
                nursery.start_soon(start)
            await trio.testing.wait_all_tasks_blocked(0.05)
            os.kill(spawner.pid, signal.SIGKILL)

    assert {result.reason for result in results} == {"spawner-died"}
    assert len(results) == 100


@pytest.mark.parametrize("way", ["cgroup", "sweep"])
async def test_a_spawner_that_is_killed_in_the_middle_of_a_burst_leaves_nothing(shop, way):
    shop.write("trap '' TERM INT HUP; setsid sleep 60 & sleep 60", "runner.sh")
    for delay_ms in (1, 5, 20, 60, 150):
        results: list[object] = []

        async def start(spawner: Spawner, number: int, results: list[object] = results) -> None:
            request = shop.request("bash", terminal=number % 2 == 0, task_id=f"t-{number}", text="x" * 100_000)
            results.append(await spawner.start(request))

        async with open_spawner(shop.setup(cgroup=NO_CGROUP if way == "sweep" else None)) as spawner:
            with trio.fail_after(20):
                async with trio.open_nursery() as nursery:
                    for number in range(30):
                        nursery.start_soon(start, spawner, number)
                    await trio.sleep(delay_ms / 1000)  # the moment is what differs: there is nothing to wait for
                    os.kill(spawner.pid, signal.SIGKILL)
                await spawner.wait_died()

            assert shop.alive() == set()
            for result in results:
                if isinstance(result, Process):
                    assert await result.wait() == ExitStatus(spawner_died=True)
                    result.close()
                else:
                    assert isinstance(result, SpawnFailed) and result.reason == "spawner-died"
        assert len(results) == 30


async def test_the_daemon_reaps_what_a_dead_spawner_left(shop):
    children = trio.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    before = await children.read_text()  # other tests share a daemon that is our child, too
    shop.write(STUBBORN)
    async with open_spawner(shop.setup(cgroup=NO_CGROUP)) as spawner:
        process = started(await spawner.start(shop.request()))
        await shop.wait_for("deep")
        os.kill(spawner.pid, signal.SIGKILL)
        await spawner.wait_died()
        process.close()

    assert await children.read_text() == before


async def test_another_childs_session_of_the_daemon_is_not_touched(shop):
    bystander = await trio.lowlevel.open_process(["/bin/sleep", "60"], start_new_session=True)
    try:
        async with open_spawner(shop.setup(cgroup=NO_CGROUP)) as spawner:
            os.kill(spawner.pid, signal.SIGKILL)
            await spawner.wait_died()

        assert bystander.poll() is None
    finally:
        bystander.kill()
        await bystander.wait()


@pytest.mark.parametrize("way", ["cgroup", "sweep"])
@pytest.mark.parametrize("terminal", [False, True])
def test_kill_9_of_the_daemon_ends_every_run(shop: Workshop, way, terminal):
    shop.write(STUBBORN)
    setup = shop.setup(cgroup=NO_CGROUP if way == "sweep" else None)
    daemon, spawner = start_daemon(setup, shop.request(terminal=terminal))
    with daemon:
        assert wait_until((shop.root / "deep").exists, 10)

        daemon.kill()

        assert wait_until(lambda: not shop.alive(), 2), shop.alive()
        assert wait_until(lambda: (proc := look(spawner)) is None or proc.is_zombie, 2)
        with suppress(ChildProcessError):  # it came to this process when an earlier test has made it a subreaper
            os.waitpid(spawner, 0)


async def test_leaving_the_block_ends_every_run(shop):
    shop.write(STUBBORN)
    async with open_spawner(shop.setup()) as spawner:
        for number in range(3):
            started(await spawner.start(shop.request(task_id=f"t-{number}")))
        await shop.wait_for("deep")

    assert shop.alive() == set()


async def test_a_stopped_spawner_cannot_keep_the_block_open(shop, monkeypatch):
    monkeypatch.setattr("sandboxd.runner.client._CLOSE_S", 0.2)
    shop.write(STUBBORN)
    with trio.fail_after(8):
        async with open_spawner(shop.setup()) as spawner:
            started(await spawner.start(shop.request()))
            await shop.wait_for("deep")
            os.kill(spawner.pid, signal.SIGSTOP)

    assert shop.alive() == set()


async def test_a_spawner_that_does_not_answer_is_ended(shop, monkeypatch):
    monkeypatch.setattr("sandboxd.runner.client.REPLY_S", 0.2)
    async with open_spawner(shop.setup()) as spawner:
        os.kill(spawner.pid, signal.SIGSTOP)
        with trio.fail_after(8):
            failed = await spawner.start(shop.request())

        assert isinstance(failed, SpawnFailed)
        assert failed.reason == "spawner-died"


async def test_an_exception_in_the_block_comes_out_as_it_is(shop):
    with pytest.raises(ZeroDivisionError):
        async with open_spawner(shop.setup()):
            raise ZeroDivisionError


async def test_a_cancelled_block_ends_its_runs(shop):
    shop.write(STUBBORN)
    with trio.CancelScope() as scope:
        async with open_spawner(shop.setup()) as spawner:
            started(await spawner.start(shop.request()))
            await shop.wait_for("deep")
            scope.cancel()
            await trio.sleep(60)

    assert shop.alive() == set()
