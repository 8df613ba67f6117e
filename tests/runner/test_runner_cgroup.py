"""Is a cgroup only counted on where it works, and is nothing of it left?"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from sandboxd.policy.model import Limits
from sandboxd.runner import cgroup, limits
from sandboxd.runner.client import open_spawner
from sandboxd.runner.isolation.levels import Kept, resolve
from sandboxd.runner.isolation.selftest import probe_for
from tests.runner.workshop import finish, start_daemon, started, wait_until
from tests.support.programs import begun


@pytest.fixture
def base() -> Path:
    made = cgroup.make_base(os.environ.get("SANDBOXD_TEST_CGROUP"))
    if isinstance(made, cgroup.NoCgroup):
        pytest.skip(f"NOT TESTED HERE: no cgroup can be made: {made.why}")
    return made


@pytest.fixture
def memory_controller(base: Path) -> None:  # not in the test: what a trio test skips for does not reach the summary
    controllers = cgroup.use_controllers(base)
    assert cgroup.remove(base)
    if "memory" not in controllers:
        pytest.skip("NOT TESTED HERE: no memory controller is delegated, so no limit of a whole run, and no OOM kill")


def test_a_folder_that_is_no_cgroup_is_not_used(tmp_path):
    assert cgroup.make_base(str(tmp_path)) == cgroup.NoCgroup(f"`{tmp_path}` is no cgroup2 directory")
    assert list(tmp_path.iterdir()) == []


def test_everything_in_it_ends_with_one_write_and_it_can_be_removed(base):
    run = cgroup.make_run(base, "t", {})
    inner = run / "made-by-the-run"
    inner.mkdir()
    children = []
    for folder in (run, inner):
        child = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        (folder / "cgroup.procs").write_text(str(child.pid))
        children.append(child)
    assert cgroup.pids(base) == {child.pid for child in children}
    assert not cgroup.remove(base)

    cgroup.kill(base)

    assert [child.wait(5) for child in children] == [-9, -9]
    assert not cgroup.pids(base)
    assert cgroup.remove(base)
    assert not base.exists()


def test_runs_of_one_name_get_folders_of_their_own(base):
    paths = {cgroup.make_run(base, "../../etc", {}) for _ in range(3)}

    assert len(paths) == 3
    assert {path.parent for path in paths} == {base}
    assert cgroup.remove(base)


def test_what_is_gone_is_neither_an_error_nor_populated(tmp_path):
    gone = tmp_path / "gone"

    cgroup.kill(gone)

    assert not cgroup.pids(gone)
    assert cgroup.pids(gone) == set()
    assert cgroup.remove(gone)


def test_controllers_take_over_what_an_rlimit_does_badly():
    wanted = Limits(memory_bytes=2**28, processes=7, cpu_percent=150)
    all_of_them = frozenset({"memory", "pids", "cpu"})

    assert limits.cgroup_files(wanted, all_of_them, "none") == {
        "memory.max": str(2**28),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "7",
        "cpu.max": "150000 100000",
    }
    assert limits.notes(wanted, all_of_them, "none") == ()
    assert len(limits.rlimits(wanted, all_of_them, "none")) == len(limits.rlimits(wanted, frozenset(), "none")) - 1
    assert limits.cgroup_files(wanted, frozenset(), "none") == {}
    assert len(limits.notes(wanted, frozenset(), "none")) == 3


def test_processes_are_counted_by_the_user_namespace_where_there_is_one():
    wanted = Limits(processes=7)

    limited = dict(limits.rlimits(wanted, frozenset(), "strict"))

    assert limited[resource.RLIMIT_NPROC] == 7 + limits.HOUSEKEEPING
    assert limits.notes(wanted, frozenset(), "strict") == ()
    assert resource.RLIMIT_NPROC not in dict(limits.rlimits(wanted, frozenset(), "none"))
    assert dict(limits.rlimits(wanted, frozenset(), "standard"))[resource.RLIMIT_NPROC] > 7


FORKS = """
import os, sys
from sandboxd.runner import cgroup, linux
folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
pid, is_inside = linux.fork(folder)
if pid == 0:
    if not is_inside:
        cgroup.move_here(int(sys.argv[2]))
    with open("/proc/self/cgroup") as file:
        print(file.read().strip(), flush=True)
    os._exit(7 if is_inside else 8)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test_a_child_is_born_in_its_cgroup_and_moves_there_where_it_cannot_be(base, tmp_path):
    run = cgroup.make_run(base, "t", {})
    folder = cgroup.open_folder(run)
    try:
        for path in (run, tmp_path):  # the second is no cgroup: clone3 fails, as it does where it is forbidden
            command = [sys.executable, "-c", FORKS, str(path), str(folder)]
            done = subprocess.run(command, pass_fds=[folder], capture_output=True, text=True, timeout=30, check=True)
            *inside, code = done.stdout.split()

            assert inside[-1].endswith(f"/{base.name}/{run.name}")
            assert code == "8" or path == run
    finally:
        os.close(folder)
    assert cgroup.remove(run)
    assert cgroup.remove(base)


def test_a_base_that_somebody_removed_is_made_anew(base):
    assert cgroup.remove(base)

    run = cgroup.make_run(base, "t", {})

    assert run.is_dir()
    assert cgroup.sweep(os.environ.get("SANDBOXD_TEST_CGROUP")) in (0, 1)  # held again: no sweep takes it
    assert run.is_dir()
    assert cgroup.remove(base)


def test_where_no_cgroup_can_be_made_any_more_it_says_what_is_missing(tmp_path):
    with pytest.raises(OSError, match="cannot make a cgroup for it: no such file or directory"):
        cgroup.make_run(tmp_path / "gone/base", "t", {})


@pytest.mark.parametrize("level", ["none", "standard"])
async def test_a_run_that_was_moved_out_of_its_cgroup_is_ended_all_the_same(shop, base, level):
    """By an operator, or a manager that tidies up: the daemon may do it too, so this test can."""
    assert cgroup.remove(base)
    if level != "none" and not isinstance(kept := resolve(level, probe_for(level)), Kept):
        pytest.skip(f"NOT TESTED HERE: {kept.reason}")
    shop.isolation = f'level = "{level}"'
    shop.write("trap '' HUP TERM INT; (sleep 60 & wait) & sleep 60; sleep 60", "runner.sh")
    async with open_spawner(shop.setup()) as spawner:
        process = started(await spawner.start(shop.request("bash")))
        assert spawner.cgroup is not None
        (moved,) = [path for path in spawner.cgroup.iterdir() if path.is_dir()]
        elsewhere = spawner.cgroup / "elsewhere"
        elsewhere.mkdir()
        assert await trio.to_thread.run_sync(wait_until, lambda: len(cgroup.pids(moved)) >= 3, 10)
        while pids := cgroup.pids(moved):  # one may be born in between
            for pid in pids:
                (elsewhere / "cgroup.procs").write_text(str(pid))
        moved.rmdir()

        left = await process.end_tree()
        process.close()

        assert left == ()
        assert cgroup.pids(elsewhere) == set()
        elsewhere.rmdir()


MAKER = """
import os, sys
from sandboxd.runner import cgroup
base = cgroup.make_base(sys.argv[1] or None)
run = cgroup.make_run(base, "t", {})
procs = cgroup.open_procs(run)
if os.fork() == 0:
    os.setsid()
    os.write(procs, b"0")
    print(base, flush=True)
    os.closerange(0, 100)
    __import__("time").sleep(60)
__import__("time").sleep(60)
"""


def test_what_is_held_is_not_swept_and_what_was_left_is(base):
    parent = os.environ.get("SANDBOXD_TEST_CGROUP", "")
    root = str(Path(__file__).resolve().parents[2])
    with begun(
        [sys.executable, "-c", MAKER, parent],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    ) as maker:
        assert maker.stdout is not None
        left = Path(maker.stdout.readline().strip())
        cgroup.sweep(parent or None)
        assert len(cgroup.pids(left)) == 1
        maker.kill()

    # Another daemon of these tests may start just now, and be the one who sweeps.
    assert wait_until(lambda: cgroup.sweep(parent or None) > 0 or not left.exists(), 10)

    assert not left.exists()
    assert base.exists()
    assert cgroup.remove(base)


async def test_what_a_daemon_and_its_spawner_left_is_ended_before_the_next_one_starts(shop, base):
    assert cgroup.remove(base)  # only so that a cgroup can be had here at all
    shop.write("(trap '' HUP TERM; exec setsid sleep 60) & touch up; sleep 60", "runner.sh")
    daemon, spawner = start_daemon(shop.setup(), shop.request("bash"))
    await shop.wait_for("up")
    os.kill(daemon.pid, signal.SIGSTOP)  # neither of the two may see the other one's death
    os.kill(spawner, signal.SIGKILL)
    with daemon:
        daemon.kill()

    async with open_spawner(shop.setup()):  # or another daemon of these tests, which started just before
        assert shop.alive() == set()


def test_the_kernels_own_kills_are_counted(tmp_path):
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n")

    assert cgroup.oom_kills(tmp_path) == 2
    assert cgroup.oom_kills(tmp_path / "without-the-controller") == 0


async def test_a_run_that_takes_more_memory_than_it_may_is_told_from_one_that_was_killed(shop, memory_controller):
    shop.limits = 'memory = "96MiB"'
    shop.write("import os\nos.environ.get('AIWG_A2A_TASK_ID') == 'calm' and os.kill(os.getpid(), 9)\nx = bytearray(2**29)")
    async with open_spawner(shop.setup()) as spawner:
        greedy, _, _ = await finish(await spawner.start(shop.request(task_id="greedy")))
        killed, _, _ = await finish(await spawner.start(shop.request(task_id="calm")))

    assert (greedy.signal, greedy.oom) == ("SIGKILL", True)
    assert (killed.signal, killed.oom) == ("SIGKILL", False)
