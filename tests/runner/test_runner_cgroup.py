"""Is a cgroup only counted on where it works, and is nothing of it left?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandboxd.policy.model import Limits
from sandboxd.runner import cgroup, limits


@pytest.fixture
def base() -> Path:
    made = cgroup.make_base(os.environ.get("SANDBOXD_TEST_CGROUP"))
    if isinstance(made, cgroup.NoCgroup):
        pytest.skip(f"NOT TESTED HERE: no cgroup can be made: {made.why}")
    return made


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
    wanted = Limits(memory_bytes=2**28, processes=7)
    both = frozenset({"memory", "pids"})

    assert limits.cgroup_files(wanted, both) == {"memory.max": str(2**28), "memory.oom.group": "1", "pids.max": "7"}
    assert limits.notes(wanted, both) == ()
    assert len(limits.rlimits(wanted, both)) == len(limits.rlimits(wanted, frozenset())) - 1
    assert limits.cgroup_files(wanted, frozenset()) == {}
    assert len(limits.notes(wanted, frozenset())) == 2
