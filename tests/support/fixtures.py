"""Fixtures for tests that need a real daemon; `tests/conftest.py` loads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.systemd import Image, Machine, why_no_boot
from tests.support.unit import Unit


@pytest.fixture
def make_daemon(tmp_path: Path, node: Path) -> Iterator[Callable[..., Daemon]]:
    """Start daemons of this test's own."""
    made: list[Daemon] = []

    def make(**options: Any) -> Daemon:
        folder = tmp_path / f"host-{len(made)}"
        folder.mkdir()
        made.append(Daemon(folder, str(node), **options))
        made[-1].start()
        return made[-1]

    yield make
    for daemon in made:
        daemon.end()


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon that this test may stop, kill and start again."""
    return make_daemon()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Daemon]:
    """One daemon for a whole file of tests, which may run tasks on it and nothing else."""
    daemon = Daemon(tmp_path_factory.mktemp("shared"), str(node))
    daemon.start()
    yield daemon
    daemon.end()


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Image:
    """This tree's wheel, installed for machines of the tests' own (`tests/support/systemd.py`)."""
    if why := why_no_boot(tmp_path_factory.mktemp("plain")):
        pytest.skip(f"NOT TESTED HERE: sandboxd under a real systemd: {why}")
    return Image.build(tmp_path_factory.mktemp("image"), node)


@pytest.fixture(scope="module")
def make_machine(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Machine]]:
    """Machines of one file of tests, to be filled and brought up."""
    made: list[Machine] = []

    def make() -> Machine:
        made.append(Machine(image, tmp_path_factory.mktemp("machine")))
        return made[-1]

    yield make
    for machine in made:
        machine.down()


@pytest.fixture(scope="module")
def booted(make_machine: Callable[[], Machine]) -> Unit:
    """sandboxd as a service under a real systemd, for one file of tests; the first client starts it."""
    unit = Unit(make_machine())
    unit.up()
    return unit
