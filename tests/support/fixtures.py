"""Fixtures for tests that need a real daemon; `tests/conftest.py` loads them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon


@pytest.fixture(scope="session")
def node() -> str:
    path = os.environ.get("SANDBOXD_NODE") or shutil.which("node")
    if path is None:
        pytest.skip("NOT TESTED: no Node on this machine; `make test` installs one")
    return str(Path(path).resolve())


@pytest.fixture
def make_daemon(tmp_path: Path, node: str) -> Iterator[Callable[..., Daemon]]:
    made: list[Daemon] = []

    def make(**options: Any) -> Daemon:
        folder = tmp_path / f"host-{len(made)}"
        folder.mkdir()
        daemon = Daemon(folder, node, **options)
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
