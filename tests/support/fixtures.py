"""Fixtures for tests that need a real daemon; `tests/conftest.py` loads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon


@pytest.fixture
def make_daemon(tmp_path: Path, node: Path) -> Iterator[Callable[..., Daemon]]:
    made: list[Daemon] = []

    def make(**options: Any) -> Daemon:
        folder = tmp_path / f"host-{len(made)}"
        folder.mkdir()
        daemon = Daemon(folder, str(node), **options)
        made.append(daemon)
        daemon.start()
        return daemon

    yield make
    for daemon in made:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.stop()


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    return make_daemon()
