"""What becomes of a task when the host cannot keep what its policy or config asks for? (it is refused, with what helps)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.hostile_daemon import HostileDaemon, policy_of
from tests.support.daemon import outcome_of, state_of

NOTHING = {"targets": {}, "only": ["environment_of_the_daemon"]}
# As the unit of an older systemd does by `SystemCallFilter=@system-service` (systemd issue 26913): these three calls are EPERM.
WITHOUT_LANDLOCK = """
import os, sys
from sandboxd.runner import linux
from sandboxd.runner.isolation import bpf, seccomp
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
seccomp.apply(bpf.assemble([bpf.load_number(), bpf.if_one_of((444, 445, 446), bpf.refuse(1)), bpf.give(bpf.ALLOW)]))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class DaemonWithoutLandlock(HostileDaemon):
    """It lives under a filter of somebody else's."""

    def command(self) -> list[str]:
        python, *words = super().command()
        return [python, "-c", WITHOUT_LANDLOCK, *words]


@pytest.fixture
def started(tmp_path: Path, node: Path) -> Iterator[Callable[[HostileDaemon], HostileDaemon]]:
    made: list[HostileDaemon] = []

    def start(daemon: HostileDaemon) -> HostileDaemon:
        made.append(daemon)
        daemon.start()
        return daemon

    yield start
    for daemon in made:
        daemon.end()


def reason_of(task: dict) -> str:
    assert state_of(task) == "REJECTED", task["status"]
    (reason,) = [reason["reason"] for reason in outcome_of(task)["reasons"] if reason["field"] == "isolation"]
    assert not task.get("artifacts")
    return reason


def test_strict_without_bubblewrap_is_refused_with_what_helps(started, tmp_path, node):
    daemon = HostileDaemon(tmp_path, "strict", node=str(node))
    daemon.config.write_text(daemon.config.read_text() + 'bubblewrap = "/nonexistent/bwrap"\n')

    reason = reason_of(started(daemon).send(NOTHING))

    assert "cannot keep `strict`" in reason
    assert "/nonexistent/bwrap" in reason
    assert "What helps" in reason


def test_a_filter_that_takes_landlock_away_is_told_and_nothing_runs_that_needs_it(started, tmp_path, node):
    daemon = DaemonWithoutLandlock(tmp_path, "none", node=str(node))
    daemon.policy.write_text(policy_of("hostile").replace("[isolation]", '[isolation]\nlevel = "standard"'))
    started(daemon)

    reason = reason_of(daemon.send(NOTHING))

    assert "cannot keep `standard`" in reason
    assert "landlock" in reason
    assert "system call filter" in reason
    assert state_of(daemon.send({"targets": {}}, adapter="hostile-node")) != "REJECTED"  # it asks for nothing
