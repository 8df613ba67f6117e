"""Does bubblewrap work in the unit with its drop-in, and is it the drop-in that lets it?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.daemon import output_of
from tests.support.systemd import Machine
from tests.support.unit import Unit

pytestmark = pytest.mark.systemd

WRAPPED = (
    "bwrap --unshare-user --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp -- "
    "sh -c 'echo inside as $(ls /proc | grep -c ^[0-9]) processes'; echo status $?"
)


def test_only_the_drop_in_lets_bubblewrap_work(make_machine: Callable[[], Machine]) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("NOT TESTED HERE: bubblewrap in the unit: there is no bwrap on this machine")
    unit = Unit(make_machine())
    unit.up("--bubblewrap")
    steps: list[list[Any]] = [["shell", WRAPPED], ["sleep", 3000]]

    with_it = output_of(unit.run(steps))
    unit.machine.run("sandboxd", "install-units", "--no-bubblewrap")
    unit.machine.run("systemctl", "daemon-reload")
    unit.machine.run("systemctl", "restart", "sandboxd.service")
    without_it = output_of(unit.run(steps))

    assert "inside as" in with_it, with_it
    assert "status 0" in with_it
    assert "status 1" in without_it
