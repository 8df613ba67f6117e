"""What stands in systemd's place: a real socket that is told what systemd would be told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandboxd.service.notify import Notifier


class Ear:
    """Listens as PID 1 does at `NOTIFY_SOCKET`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    def heard(self) -> list[dict[str, str]]:
        """Every message since the last look."""
        found: list[dict[str, str]] = []
        while True:
            try:
                message = self._socket.recv(65_536).decode()
            except BlockingIOError:
                return found
            found.append(dict(line.partition("=")[::2] for line in message.splitlines()))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def notifier(ear: Ear) -> Iterator[Notifier]:
    """What speaks to it."""
    with closing(Notifier(str(ear.path))) as found:
        yield found


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    found = Ear(tmp_path / "notify.sock")
    yield found
    found.close()
