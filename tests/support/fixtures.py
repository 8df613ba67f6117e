"""Fixtures for tests that need a real daemon; `tests/conftest.py` loads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon


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
