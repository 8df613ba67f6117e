"""Are the sockets that a service manager hands over those that the config names?"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandboxd.config import Config, Instance
from sandboxd.config_doors import Listen, TcpAddress
from sandboxd.config_push import Push
from sandboxd.entrances import open_doors
from sandboxd.serving.listeners import CannotListen
from sandboxd.serving.settings import DoorSettings

SETTINGS = DoorSettings()


@pytest.fixture
def unix(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "api.sock"))
        sock.listen()
        yield sock


@pytest.fixture
def tcp():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock


def config(folder: Path, port: int | None = None, *, courier: bool = False) -> Config:
    listen = Listen(folder / "api.sock", None if port is None else TcpAddress("127.0.0.1", port))
    push = Push(courier="unit" if courier else "child")
    return Config(folder, listen, (Instance("main", folder),), push=push)


def opened(wanted: Config, *handed: tuple[str, socket.socket]) -> list[str]:
    with ExitStack() as stack:
        return [listener.address for listener in open_doors(wanted, SETTINGS, handed, stack)]


def test_both_doors_are_the_handed_sockets(tmp_path: Path, unix: socket.socket, tcp: socket.socket) -> None:
    port = tcp.getsockname()[1]

    found = opened(config(tmp_path, port), ("tcp", tcp), ("unix", unix))

    assert found == [str(tmp_path / "api.sock"), f"127.0.0.1:{port}"]
    assert (tmp_path / "api.sock").exists()  # it is the manager's, which goes on listening


def test_a_door_of_the_config_that_was_not_handed_over_is_not_opened_in_silence(tmp_path: Path, unix: socket.socket) -> None:
    with pytest.raises(CannotListen, match="no socket named `tcp`"):
        opened(config(tmp_path, 8765), ("unix", unix))
    with pytest.raises(CannotListen, match="no socket named `courier`"):
        opened(config(tmp_path, courier=True), ("unix", unix))


def test_a_socket_that_the_config_does_not_know_is_refused(tmp_path: Path, unix: socket.socket, tcp: socket.socket) -> None:
    with pytest.raises(CannotListen, match="knows nothing of the socket `tcp`"):
        opened(config(tmp_path), ("unix", unix), ("tcp", tcp))


def test_a_socket_at_another_address_is_refused(tmp_path: Path, unix: socket.socket, tcp: socket.socket) -> None:
    other = config(tmp_path / "elsewhere")
    with pytest.raises(CannotListen, match="install-units"):
        opened(other, ("unix", unix))


def test_a_tcp_socket_at_another_port_is_refused(tmp_path: Path, unix: socket.socket, tcp: socket.socket) -> None:
    with pytest.raises(CannotListen, match=f"is at `127.0.0.1:{tcp.getsockname()[1]}`"):
        opened(config(tmp_path, 1), ("unix", unix), ("tcp", tcp))


def test_a_socket_under_the_wrong_name_is_refused(tmp_path: Path, unix: socket.socket, tcp: socket.socket) -> None:
    with pytest.raises(CannotListen, match="AF_INET"):
        opened(config(tmp_path, 1), ("unix", tcp), ("tcp", unix))
