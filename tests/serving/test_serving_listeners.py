"""Are the sockets safe from their first moment, and gone at the end?"""

from __future__ import annotations

import os
import socket
import stat

import pytest

from sandboxd.serving.listeners import CannotListen, is_loopback, tcp_listener, unix_listener


def test_the_unix_socket_is_private_and_unlinked_at_exit(tmp_path):
    path = tmp_path / "d.sock"
    before = os.umask(0)
    try:
        with unix_listener(path) as listener:
            mode = stat.S_IMODE(path.stat().st_mode)
            inheritable = listener.socket.get_inheritable()
    finally:
        os.umask(before)

    assert (mode, inheritable, path.exists()) == (0o600, False, False)


def test_a_stale_socket_is_replaced(tmp_path):
    path = tmp_path / "d.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    with unix_listener(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_socket_that_somebody_listens_on_is_left_alone(tmp_path):
    path = tmp_path / "d.sock"
    with unix_listener(path):
        with pytest.raises(CannotListen, match="another daemon listens there"), unix_listener(path):
            pass

        assert path.exists()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "d.sock"
    path.write_text("precious")

    with pytest.raises(CannotListen, match="no socket is there"), unix_listener(path):
        pass
    assert path.read_text() == "precious"


def test_a_socket_of_somebody_else_is_not_unlinked(tmp_path):
    path = tmp_path / "d.sock"
    with unix_listener(path):
        path.unlink()
        path.write_text("theirs")

    assert path.read_text() == "theirs"


def test_a_path_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(CannotListen, match="longer than 107 bytes"), unix_listener(tmp_path / ("x" * 200)):
        pass


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(CannotListen, match="no such file"), unix_listener(tmp_path / "none" / "d.sock"):
        pass


def test_tcp_listens_with_its_timeouts(tmp_path):
    with tcp_listener("localhost", 0, stall_s=7) as listener, socket.socket() as client:
        client.connect(listener.socket.getsockname())
        while True:
            try:
                accepted, _ = listener.socket.accept()
                break
            except BlockingIOError:
                continue
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
            assert not listener.socket.get_inheritable()


def test_tcp_in_use_is_named():
    with tcp_listener("127.0.0.1", 0) as first:
        port = int(first.address.rsplit(":", 1)[1])
        with pytest.raises(CannotListen, match="the address is in use"), tcp_listener("127.0.0.1", port):
            pass


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org", ""])
def test_tcp_listens_on_loopback_alone(host):
    with pytest.raises(CannotListen, match="loopback only"), tcp_listener(host, 0):
        pass


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("[::1]", True),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_loopback_names(host, expected):
    assert is_loopback(host) is expected
