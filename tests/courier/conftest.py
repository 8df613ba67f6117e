"""Receivers, and daemons that may send to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.courier.receiver import Receiver
from tests.support.daemon import Daemon

ALLOW = '[push]\nallow = ["127.0.0.0/8"]\n'


@pytest.fixture
def make_receiver() -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(*args: Any, **options: Any) -> Receiver:
        made.append(Receiver(*args, **options))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture(scope="module")
def pusher(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Daemon]:
    """One daemon that may send to loopback, for a whole file of tests."""
    daemon = Daemon(tmp_path_factory.mktemp("pusher"), str(node), extra=ALLOW)
    daemon.start()
    yield daemon
    daemon.end()
