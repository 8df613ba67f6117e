"""A hostile task inside the real unit: what gets through of what the other suites try?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.hostile.attacks.craft import ATTACKS
from tests.hostile.attacks.runner import ROOMS
from tests.hostile.expected import ALLOWED, IN_THE_UNIT, STRICT
from tests.hostile.hostile_daemon import DAEMON_CANARY, arm, policy_of
from tests.support.daemon import REPOSITORY, wait_until
from tests.support.systemd import Machine
from tests.support.unit import CONFIG, POLICY, PORT, PYTHON, TOKEN, Unit

pytestmark = pytest.mark.systemd

CODE = "/srv/hostile"
CANARY = f"[Service]\nEnvironment=SANDBOXD_HOSTILE_CANARY={DAEMON_CANARY}\n"


@pytest.fixture
def attacked(make_machine: Callable[[], Machine]) -> Callable[..., dict[str, Any]]:
    """What the attacks came to in a unit of that kind."""

    def run(level: str, *options: str) -> dict[str, Any]:
        machine = make_machine()
        machine.write("/etc/systemd/system/sandboxd.service.d/20-canary.conf", CANARY)
        for folder in ("hostile", "support"):
            shutil.copytree(REPOSITORY / "tests" / folder, machine.seed / f"{CODE}/tests/{folder}".lstrip("/"))
        unit = Unit(machine, policy=policy_of("hostile"), extra=f'[isolation]\nlevel = "{level}"\n')
        unit.up(*options)
        arm(unit.workspace)
        with unit.client() as client:
            assert client.get("/readyz").json()["ready"] is True
        pid = wait_until(lambda: unit.main_pid, what="the daemon")
        where = json.dumps({"pid": pid, "config": CONFIG, "policy": POLICY, "port": PORT, "token": TOKEN})
        script = f'cd {CODE} && exec {PYTHON} -m tests.hostile.in_unit "$1"'
        told = machine.run("sh", "-c", script, "sh", where, timeout_s=300)
        assert unit.state("active", "failed") == "active", unit.log()
        assert unit.main_pid == pid, "an attack has ended the daemon"
        return json.loads(told)

    return run


@pytest.mark.parametrize(("level", "options", "column"), [("standard", (), IN_THE_UNIT), ("strict", ("--bubblewrap",), STRICT)])
def test_every_attack_is_stopped_in_the_unit_or_allowed_for_a_reason(attacked, level, options, column, record_property):
    told = attacked(level, *options)

    assert ROOMS  # they register where they are imported
    assert set(told["own"]) == set(ATTACKS)
    stopped = len(told["own"]) - len(told["through"])
    through = ", ".join(told["through"]) or "none"
    record_property("hostile", f"{level} in the real unit: {stopped} of {len(told['own'])} attacks stopped; through: {through}")
    assert {name: how for name, how in told["through"].items() if name not in ALLOWED[column]} == {}
    assert {name: own for name, own in told["own"].items() if {"bug", "hung"} & set(own)} == {}
    assert told["files"] == []
    assert told["changed"] == {}
