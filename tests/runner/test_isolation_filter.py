"""Which calls does the filter refuse, and which does it leave alone?"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxd.runner import linux
from sandboxd.runner.isolation import seccomp

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="NOT TESTED HERE: no filter for this machine"
)


def under_the_filter(act: Callable[[], object], *, network: bool = False, alone: bool = True) -> int:
    """The errno with which the act fails in a child that has the filter, 0 when it works."""
    program = seccomp.filter_for(platform.machine(), network=network, alone=alone)
    child = os.fork()
    if child == 0:
        code = 255
        try:
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.apply(program)
            act()
            code = 0
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def create(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, mode))


@pytest.mark.parametrize("alone", [True, False])
def test_no_file_becomes_setuid(tmp_path, alone):
    file = tmp_path / "file"
    file.touch()
    fd = os.open(file, os.O_RDWR)

    assert under_the_filter(lambda: create(tmp_path / "new", 0o4755), alone=alone) == errno.EPERM
    assert under_the_filter(lambda: os.fchmod(fd, 0o2755), alone=alone) == errno.EPERM
    assert under_the_filter(lambda: os.mknod(tmp_path / "node", 0o100000 | 0o4755), alone=alone) == errno.EPERM
    assert under_the_filter(lambda: file.chmod(0o6755), alone=alone) == errno.EPERM
    assert not (tmp_path / "new").exists()


def test_ordinary_modes_are_left_alone(tmp_path):
    file = tmp_path / "file"
    file.touch()

    assert under_the_filter(lambda: create(tmp_path / "new", 0o755)) == 0
    assert under_the_filter(lambda: file.chmod(0o1777)) == 0


def test_a_file_that_is_only_opened_has_no_mode(tmp_path):
    """Without O_CREAT the kernel ignores the argument, and so must the filter: it holds whatever was there before."""
    file = tmp_path / "file"
    file.touch()

    def opened() -> None:
        found = ctypes.CDLL(None, use_errno=True).open(os.fsencode(file), os.O_RDONLY, 0o6755)
        if found < 0:
            raise OSError(ctypes.get_errno(), "open")

    assert under_the_filter(opened) == 0


def test_a_pair_of_sockets_stays_a_pair():
    def bind() -> None:
        socket.socketpair()[0].bind("\0a-name-of-somebody-else's")

    def talk() -> None:
        ours, theirs = socket.socketpair()
        ours.sendall(b"x")
        assert theirs.recv(1) == b"x"

    assert under_the_filter(bind) == errno.EACCES
    assert under_the_filter(talk) == 0


def test_with_a_network_there_are_connections_but_no_paths():
    listener = socket.create_server(("127.0.0.1", 0))

    def connect() -> None:
        socket.create_connection(listener.getsockname(), timeout=10).close()

    assert under_the_filter(connect, network=True) == 0
    assert under_the_filter(lambda: socket.socket(socket.AF_UNIX).close(), network=True) == errno.EACCES
    listener.close()


def get_scheduling(name: str, pid: int) -> Callable[[], object]:
    """By glibc, which asks the kernel what it is asked."""

    def asked() -> None:
        buffer = ctypes.create_string_buffer(256)
        if getattr(ctypes.CDLL(None, use_errno=True), name)(pid, buffer) < 0:
            raise OSError(ctypes.get_errno(), name)

    return asked


def test_where_others_are_seen_nothing_is_asked_of_them_by_pid():
    other = os.getppid()
    asked: dict[str, Callable[[], object]] = {
        "session": lambda: os.getsid(other),
        "priority": lambda: os.getpriority(os.PRIO_PROCESS, other),
        "priority of a user": lambda: os.getpriority(os.PRIO_USER, 0),
        "scheduler": lambda: os.sched_getscheduler(other),
        "parameters": get_scheduling("sched_getparam", other),
        "interval": get_scheduling("sched_rr_get_interval", other),
    }

    assert {what: under_the_filter(act, alone=False) for what, act in asked.items()} == dict.fromkeys(asked, errno.EPERM)
    assert under_the_filter(lambda: os.sched_getaffinity(other), alone=False) == errno.ENOSYS
    assert {what: under_the_filter(act) for what, act in asked.items()} == dict.fromkeys(asked, 0)


def test_a_program_may_ask_for_its_own_by_the_pid_that_means_itself():
    def ask() -> None:
        os.getsid(0)
        os.getpriority(os.PRIO_PROCESS, 0)
        os.sched_getaffinity(0)
        os.sched_getscheduler(0)
        os.getpgid(os.getppid())

    assert under_the_filter(ask, alone=False) == 0


def test_a_thread_s_stack_is_still_known():
    """pthread_getattr_np asks for the processors by the thread's own number, and every runtime calls it."""

    def stack() -> None:
        libc = ctypes.CDLL(None)
        libc.pthread_self.restype = ctypes.c_void_p
        found = libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), ctypes.create_string_buffer(256))
        if found:
            raise OSError(found, "pthread_getattr_np")

    assert under_the_filter(stack, alone=False) == 0
