"""Are a cockpit's doors the sockets that a service manager hands over, all of them or none?"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.people import People
from sandboxd.cockpit.web.serve import SOCKET_NAME, open_listeners
from sandboxd.cockpit.web_config import Web
from sandboxd.config_doors import TcpAddress
from sandboxd.serving.listeners import CannotListen
from sandboxd.serving.settings import DoorSettings
from tests.cockpit.bridge import person


@pytest.fixture
def unix(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "cockpit.sock"))
        sock.listen()
        yield sock


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock


def opened(folder: Path, web: Web, *socks: socket.socket, name: str = SOCKET_NAME) -> list[str]:
    handed = [(name, sock) for sock in socks]
    with open_listeners(CockpitConfig(folder, ()), web, DoorSettings(), handed) as listeners:
        return [listener.address for listener in listeners]


def at(tcp: socket.socket) -> TcpAddress:
    return TcpAddress("127.0.0.1", tcp.getsockname()[1])


def test_both_doors_are_the_handed_sockets_and_stay(tmp_path, unix, tcp):
    address = at(tcp)

    found = opened(tmp_path, Web(address, tmp_path / "cockpit.sock"), tcp, unix)

    assert found == [str(tmp_path / "cockpit.sock"), str(address)]
    assert (tmp_path / "cockpit.sock").exists()  # it is the manager's, which goes on listening


def test_a_door_that_was_not_handed_over_is_not_opened_in_silence(tmp_path, unix, tcp):
    with pytest.raises(CannotListen, match="0 TCP sockets were handed over, and the config has 1"):
        opened(tmp_path, Web(at(tcp), tmp_path / "cockpit.sock"), unix)


def test_a_socket_that_the_config_has_no_use_for_is_refused(tmp_path, unix, tcp):
    with pytest.raises(CannotListen, match="1 TCP sockets were handed over, and the config has 0"):
        opened(tmp_path, Web(None, tmp_path / "cockpit.sock"), unix, tcp)


def test_a_socket_at_another_address_is_refused(tmp_path, unix, tcp):
    with pytest.raises(CannotListen, match="install-units"):
        opened(tmp_path, Web(None, tmp_path / "elsewhere.sock"), unix)


def test_a_socket_under_another_name_is_refused(tmp_path, unix):
    with pytest.raises(CannotListen, match="handed over as `courier`"):
        opened(tmp_path, Web(None, tmp_path / "cockpit.sock"), unix, name="courier")


@pytest.mark.parametrize(("uid", "mode"), [(None, 0o600), (1000, 0o666)])
def test_local_users_whom_the_config_names_can_reach_its_own_socket(tmp_path, uid, mode):
    web, people = Web(None, tmp_path / "cockpit.sock"), People((person("alice", uid=uid),))
    with open_listeners(CockpitConfig(tmp_path, (), people=people), web, DoorSettings()):
        assert (tmp_path / "cockpit.sock").stat().st_mode & 0o777 == mode
