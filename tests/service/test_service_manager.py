"""Is what systemd hands over taken, once, and kept from children?"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sandboxd.service.manager import take
from sandboxd.service.notify import Notifier
from tests.service.conftest import Ear

HANDED = """
import json, os, sys
from sandboxd.service.manager import BadHandover, take
environ = dict(json.loads(sys.argv[1]), LISTEN_PID=str(os.getpid()), SYSTEMD_EXEC_PID=str(os.getpid()))
try:
    manager = take(environ, os.getpid())
    print(json.dumps({
        "sockets": [[name, sock.getsockname(), sock.get_inheritable()] for name, sock in manager.sockets],
        "left": environ, "is_unit": manager.is_unit, "watchdog_s": manager.watchdog_s,
    }))
except BadHandover as error:
    print(json.dumps({"refused": str(error)}))
"""


def hand_over(descriptors: list[int], **environ: str) -> dict:
    """Start a process that has them from number 3 on, and see what it takes."""

    def place() -> None:
        high = [os.dup2(fd, 100 + index) for index, fd in enumerate(descriptors)]
        for index, fd in enumerate(high):
            os.dup2(fd, 3 + index)

    done = subprocess.run(
        [sys.executable, "-c", HANDED, json.dumps(environ)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        preexec_fn=place,
        pass_fds=range(3, 3 + len(descriptors)),
        env={**os.environ},
    )
    return json.loads(done.stdout)


@pytest.fixture
def listening(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as unix, socket.socket() as tcp:
        unix.bind(str(tmp_path / "a.sock"))
        tcp.bind(("127.0.0.1", 0))
        unix.listen()
        tcp.listen()
        yield unix, tcp


def test_sockets_come_with_their_names_and_no_child_inherits_them(listening) -> None:
    unix, tcp = listening

    taken = hand_over([unix.fileno(), tcp.fileno()], LISTEN_FDS="2", LISTEN_FDNAMES="unix:tcp")

    assert taken["sockets"] == [["unix", unix.getsockname(), False], ["tcp", list(tcp.getsockname()), False]]


def test_nothing_of_it_is_left_in_the_environment(listening) -> None:
    given = {"LISTEN_FDS": "1", "NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "CREDENTIALS_DIRECTORY": "/c", "HOME": "/h"}

    taken = hand_over([listening[0].fileno()], **given)

    assert taken["left"] == {"HOME": "/h"}
    assert (taken["is_unit"], taken["watchdog_s"]) == (True, 3.0)


def test_a_descriptor_that_does_not_listen_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert "descriptor 3" in hand_over([file.fileno()], LISTEN_FDS="1")["refused"]


def test_what_is_meant_for_another_process_is_not_taken() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "3", "WATCHDOG_PID": "1", "WATCHDOG_USEC": "1000000", "SYSTEMD_EXEC_PID": "1"}

    manager = take(environ, os.getpid())

    assert (manager.sockets, manager.watchdog_s, manager.is_unit, environ) == ((), None, False, {})


def test_a_status_is_one_line_whatever_is_in_it(ear: Ear, notifier: Notifier) -> None:
    notifier.ready("ready\nWATCHDOG=1\nMAINPID=1")

    assert ear.heard() == [{"READY": "1", "STATUS": "ready WATCHDOG=1 MAINPID=1"}]


def test_a_manager_that_does_not_listen_holds_nobody_up(tmp_path: Path) -> None:
    with closing(Notifier(str(tmp_path / "nobody.sock"))) as notifier:
        notifier.alive("x")
    Notifier().alive("x")
