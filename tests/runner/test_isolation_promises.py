"""Does this host promise only what its layers keep?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandboxd.policy.model import Isolation
from sandboxd.runner.isolation.containment import prove
from sandboxd.runner.isolation.levels import Ability, Host, Layer
from sandboxd.runner.isolation.promises import promises

ALL: tuple[Layer, ...] = ("limits", "no-new-privileges", "landlock", "seccomp", "cgroup", "bubblewrap")
FILES = "reads nothing but its workspace and the system's programs"
PROCESSES = "has no more processes than its policy says"
GONE = "leaves no process behind"


def host(*layers: Layer, abi: int = 7) -> Host:
    return Host({layer: Ability(layer, works=True) for layer in layers}, abi)


def kept(what: str, of: Host, *controllers: str) -> dict[Isolation, str]:
    (promise,) = [promise for promise in promises(of, frozenset(controllers)) if promise.what == what]
    return dict(promise.kept)


def test_none_promises_no_files_and_the_others_do():
    assert kept(FILES, host(*ALL)) == {"none": "no", "standard": "yes", "strict": "yes"}


def test_what_a_level_that_is_refused_would_keep_is_not_promised():
    assert kept(FILES, host("limits", "no-new-privileges", "seccomp")) == {"none": "no", "standard": "no", "strict": "no"}


def test_standard_that_becomes_strict_promises_what_strict_does():
    old = host(*[layer for layer in ALL if layer != "cgroup"], abi=2)

    assert kept(GONE, old)["standard"] == "yes"


def test_a_bound_without_its_controller_is_not_promised():
    assert kept(PROCESSES, host(*ALL)) == {"none": "no", "standard": "part", "strict": "yes"}
    assert kept(PROCESSES, host(*ALL), "pids") == {"none": "yes", "standard": "yes", "strict": "yes"}


def test_a_cgroup_is_proved_by_a_child_that_it_killed(test_cgroup: Path):
    own = test_cgroup / f"proof-{os.getpid()}"  # where no daemon of another test makes its own
    own.mkdir()
    try:
        found = prove(str(own))

        assert found.why_not == ""
        assert [path for path in own.iterdir() if path.is_dir()] == []
    finally:
        own.rmdir()


def test_where_no_cgroup_can_be_made_the_reason_is_told(tmp_path: Path):
    assert "is no cgroup2 directory" in prove(str(tmp_path)).why_not


@pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED HERE: root may write everywhere")
def test_a_cgroup_that_may_not_be_written_is_no_cgroup(test_cgroup: Path):
    mount = next(
        parent for parent in test_cgroup.parents if (parent / "cgroup.procs").exists() and not os.access(parent, os.W_OK)
    )

    assert "cannot make a cgroup" in prove(str(mount)).why_not
