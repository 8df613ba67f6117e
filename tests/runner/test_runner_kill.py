"""Does everything that a run started end with it, whatever it does against that?"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import attrs
import pytest
import trio

from sandboxd.runner import cgroup
from sandboxd.runner.client import Spawner, open_spawner
from sandboxd.runner.isolation.levels import Kept, resolve
from sandboxd.runner.isolation.selftest import probe_for
from tests.runner.workshop import NO_CGROUP, Workshop, finish, output, read_until, started, wait_until

ROUNDS = 20
IGNORE = "import os, signal, sys, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"

# Ignores what can be ignored; a child that has setsid, a double fork with three sessions below it, and all hold the terminal.
QUIET = (
    IGNORE
    + """
def sleeper():
    open(f"up-{os.getpid()}", "w").close()
    while True: time.sleep(60)
if os.fork() == 0:
    os.setsid(); sleeper()
if os.fork() == 0:
    os.setsid()
    for _ in range(3):
        if os.fork() == 0:
            os.setsid(); sleeper()
    os._exit(0)
open("leader", "w").close()
sleeper()
"""
)

# A branch that forks again every half millisecond, each time in a new session, its environment's marker kept.
CHURN = (
    IGNORE
    + """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def churn():
    count = 0
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
        count += 1
        if count == 20: open("leader", "w").close()
        time.sleep(0.0005)
if os.fork() == 0:
    churn()
while True: time.sleep(60)
"""
)


@pytest.fixture
def leavable_cgroup() -> None:  # not in the test: what a trio test skips for does not reach the summary
    made = cgroup.make_base(os.environ.get("SANDBOXD_TEST_CGROUP"))
    if isinstance(made, cgroup.NoCgroup):
        pytest.skip(f"NOT TESTED HERE: a run that leaves its cgroup: {made.why}")
    cgroup.remove(made)


@pytest.mark.slow
@pytest.mark.parametrize("tree", [QUIET, CHURN], ids=["quiet", "churn"])
async def test_with_a_cgroup_nothing_of_a_hostile_tree_is_left_in_any_round(shop, tree):
    shop.write(tree)
    async with open_spawner(shop.setup()) as spawner:
        if spawner.no_cgroup:
            pytest.skip(f"NOT TESTED HERE: no cgroup can be made: {spawner.no_cgroup}")
        for number in range(ROUNDS):
            process = started(await spawner.start(shop.request(terminal=number % 2 == 0)))
            (await shop.wait_for("leader")).unlink()

            began = time.monotonic()
            assert await process.stop(grace_s=0.02) == ()

            assert await shop.wait_gone(3 - (time.monotonic() - began)) == set()
            process.close()


@pytest.fixture
def strict() -> None:  # not in the test: what a trio test skips for does not reach the summary
    kept = resolve("strict", probe_for("strict"))
    if not isinstance(kept, Kept):
        pytest.skip(f"NOT TESTED HERE: runs at `strict`: {kept.reason}")


@pytest.mark.parametrize("tree", [QUIET, CHURN], ids=["quiet", "churn"])
async def test_without_a_cgroup_nothing_of_a_hostile_tree_leaves_its_pid_namespace(shop, strict, tree):
    shop.isolation = 'writable = ["."]'
    shop.write(tree)
    async with open_spawner(attrs.evolve(shop.setup(cgroup=NO_CGROUP), isolation="strict")) as spawner:
        for number in range(3):
            process = started(await spawner.start(shop.request(terminal=number % 2 == 0)))
            (await shop.wait_for("leader")).unlink()
            assert shop.alive()  # what is looked for can be seen from here

            assert await process.stop(grace_s=0.02) == ()

            assert await shop.wait_gone(10) == set()
            process.close()


@pytest.mark.parametrize("terminal", [False, True])
async def test_without_a_cgroup_the_sweep_ends_a_tree_that_holds_still(shop, terminal):
    shop.write(QUIET)
    async with open_spawner(shop.setup(cgroup=NO_CGROUP)) as spawner:
        for _ in range(5):
            process = started(await spawner.start(shop.request(terminal=terminal)))
            await shop.wait_for("leader")

            assert await process.stop(grace_s=0.02) == ()

            assert await shop.wait_gone(1) == set()
            process.close()


async def test_without_a_cgroup_a_forking_tree_does_not_outlive_the_spawner(shop):
    shop.write(CHURN)
    async with open_spawner(shop.setup(cgroup=NO_CGROUP)) as spawner:
        process = started(await spawner.start(shop.request()))
        await shop.wait_for("leader")
        await process.stop(grace_s=0)
        process.close()

    assert await shop.wait_gone(3) == set()


async def test_the_ladder_is_polite_first(shop, ending_spawner):
    shop.write("trap 'echo told; exit 5' INT; touch up; while :; do sleep 0.05; done", "runner.sh")
    process = started(await ending_spawner.start(shop.request("bash")))
    await shop.wait_for("up")

    assert await process.stop(grace_s=5) == ()

    assert (await process.wait()).code == 5
    assert await output(process) == (b"told\n", b"")
    process.close()


async def test_term_follows_int(shop, ending_spawner):
    shop.write("trap '' INT; trap 'exit 6' TERM; touch up; while :; do sleep 0.05; done", "runner.sh")
    process = started(await ending_spawner.start(shop.request("bash", terminal=True)))
    await shop.wait_for("up")

    assert await process.stop(grace_s=0.2) == ()

    assert (await process.wait()).code == 6
    process.close()


async def test_a_stopped_process_hears_the_ladder(shop, ending_spawner):
    shop.write("trap 'exit 7' INT; touch up; kill -STOP $$; sleep 60", "runner.sh")
    process = started(await ending_spawner.start(shop.request("bash")))
    await shop.wait_for("up")

    with trio.fail_after(20):
        assert await process.stop(grace_s=2) == ()

    assert (await process.wait()).code == 7
    process.close()


async def test_kill_is_the_last_word(shop, ending_spawner):
    shop.write(IGNORE + "open('up', 'w').close()\ntime.sleep(60)")
    process = started(await ending_spawner.start(shop.request()))
    await shop.wait_for("up")
    assert process.is_alive()

    began = time.monotonic()
    assert await process.stop(grace_s=0.1) == ()

    assert time.monotonic() - began < 2
    assert (await process.wait()).signal == "SIGKILL"
    assert not process.is_alive()
    assert process.is_tree_gone
    process.close()


async def test_a_background_child_does_not_outlive_its_run(shop, ending_spawner):
    shop.write("(trap '' HUP; exec setsid sleep 60) & exit 0", "runner.sh")
    process = started(await ending_spawner.start(shop.request("bash")))

    assert (await process.wait()).code == 0
    assert await shop.wait_gone(0) != set()
    assert await process.end_tree() == ()

    assert await shop.wait_gone(0) == set()
    process.close()


async def test_ending_one_run_leaves_the_others_alone(shop, ending_spawner):
    shop.write("(exec setsid sleep 60) & echo up; read line; exit 3", "runner.sh")
    one = started(await ending_spawner.start(shop.request("bash", terminal=True, task_id="one")))
    two = started(await ending_spawner.start(shop.request("bash", terminal=True, task_id="two")))
    assert one.terminal_fd is not None and two.terminal_fd is not None
    await read_until(one.terminal_fd, b"up")
    await read_until(two.terminal_fd, b"up")
    both = shop.alive()

    assert await one.stop(grace_s=0) == ()

    assert len(shop.alive()) == len(both) / 2
    assert two.is_alive()
    os.write(two.terminal_fd, b"\n")
    assert (await two.wait()).code == 3
    assert await two.end_tree() == ()
    assert shop.alive() == set()
    one.close()
    two.close()


async def test_an_orphan_that_hides_its_run_is_ended_with_it(shop):
    # Double fork, own session, and exec with an empty environment: no parent, no session, no marker that tells.
    shop.write("(setsid bash -c 'env -i setsid sleep 60 & exit') ; touch up; exit 0", "runner.sh")
    async with open_spawner(shop.setup(cgroup=NO_CGROUP)) as spawner:
        process = started(await spawner.start(shop.request("bash")))
        await process.wait()
        assert len(shop.alive()) == 1

        assert await process.end_tree() == ()

        assert shop.alive() == set()
        process.close()


async def test_what_left_its_cgroup_and_hides_its_run_is_ended_with_it_though_others_go_on(leavable_cgroup, shop, spawner):
    shop.write("exec sleep 60", "runner.sh")
    other = started(await spawner.start(shop.request("bash", task_id="other")))  # older: what nobody knows may be its
    shop.write(f"""
import os, time
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.mkdir("{spawner.cgroup}/hideout")
    open("{spawner.cgroup}/hideout/cgroup.procs", "w").write("0")
    os.execve("/usr/bin/sleep", ["sleep", "60"], {{}})
os.close(tell)
os.read(told, 1)
open("left", "w").close()
time.sleep(60)
""")
    process = started(await spawner.start(shop.request()))
    await shop.wait_for("left")

    assert await process.end_tree() == ()

    assert shop.alive() == {other.pid}
    assert await other.end_tree() == ()
    other.close()
    process.close()


async def test_stop_that_is_cancelled_kills_all_the_same(shop, ending_spawner):
    shop.write(IGNORE + "open('up', 'w').close()\ntime.sleep(60)")
    process = started(await ending_spawner.start(shop.request()))
    await shop.wait_for("up")

    with trio.move_on_after(0.1):
        await process.stop(grace_s=30)

    assert await shop.wait_gone(0) == set()
    process.close()


async def test_stop_after_the_end_and_stop_twice_do_nothing(shop, spawner):
    shop.write("exit 0", "runner.sh")
    process = started(await spawner.start(shop.request("bash")))
    await finish_without_closing(process)

    assert await process.stop(grace_s=1) == ()
    assert await process.stop(grace_s=1) == ()
    process.close()
    process.close()


async def test_closing_a_living_process_ends_it(shop, ending_spawner):
    shop.write(QUIET)
    process = started(await ending_spawner.start(shop.request(terminal=True)))
    await shop.wait_for("leader")

    process.close()

    assert await shop.wait_gone(3) == set()


async def test_cgroups_are_removed_with_their_runs(shop, spawner):
    if spawner.no_cgroup:
        pytest.skip(f"NOT TESTED HERE: no cgroup can be made: {spawner.no_cgroup}")
    base = spawner.cgroup
    assert base is not None
    shop.write("exit 0", "runner.sh")
    for number in range(5):
        await finish(await spawner.start(shop.request("bash", task_id=f"../../{number}")))

    assert [path for path in base.iterdir() if path.is_dir()] == []


async def test_a_run_is_in_its_cgroup_before_its_first_instruction(shop, spawner):
    if spawner.no_cgroup:
        pytest.skip(f"NOT TESTED HERE: no cgroup can be made: {spawner.no_cgroup}")
    shop.write("grep ^0:: /proc/self/cgroup", "runner.sh")

    _, out, _ = await finish(await spawner.start(shop.request("bash", task_id="t-1")))

    assert spawner.cgroup is not None
    assert out.decode().strip().endswith(f"/{spawner.cgroup.name}/run-t-1")


async def test_the_spawner_ignores_what_a_terminal_sends(shop: Workshop, spawner: Spawner):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(spawner.pid, number)
    shop.write("exit 0", "runner.sh")

    status, _, _ = await finish(await spawner.start(shop.request("bash")))

    assert status.code == 0
    assert os.getsid(spawner.pid) == spawner.pid


async def finish_without_closing(process) -> None:
    await output(process)
    await process.wait()
    await process.end_tree()


TRACED = """
import ctypes, os, pathlib, signal
may = ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0  # PTRACE_TRACEME
pathlib.Path("asked").write_text(str(may))
os.kill(os.getpid(), signal.SIGSTOP)
"""


async def test_a_run_that_has_its_parent_trace_it_is_a_run_like_others(shop, spawner):
    """The spawner is told of its stops, which are no ends."""
    shop.write(TRACED)
    process = await spawner.start(shop.request())
    await shop.wait_for("asked")
    await trio.to_thread.run_sync(wait_until, (shop.root / "asked").read_text, 10)
    if (shop.root / "asked").read_text() != "True":
        pytest.skip("NOT TESTED HERE: a run that is traced (nobody may be, on this host)")
    await trio.to_thread.run_sync(wait_until, lambda: is_traced(process.pid), 10)

    shop.write("print('well')")
    status, out, _ = await finish(await spawner.start(shop.request(task_id="task-2")))

    assert (status.code, out) == (0, b"well\n")
    assert process.is_alive()
    assert await process.stop(grace_s=0) == ()
    assert (await process.wait()).signal == "SIGKILL"
    process.close()


def is_traced(pid: int) -> bool:
    """Whether it is stopped for whoever traces it (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "t"
