"""How does a disk come to be full for one daemon alone?"""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from tests.support.daemon import Daemon


@pytest.fixture
def fill_disk() -> Callable[..., None]:
    """The store's log cannot grow any more; the daemon's own log, which is smaller, can. It needs no rights."""

    def fill(daemon: Daemon, *, full: bool) -> None:
        assert daemon.process is not None
        most = daemon.store.with_name(daemon.store.name + "-wal").stat().st_size if full else resource.RLIM_INFINITY
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    return fill
