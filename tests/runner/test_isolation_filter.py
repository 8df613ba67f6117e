"""Which calls does the filter refuse, and which does it leave alone?"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sandboxd.runner import linux
from sandboxd.runner.isolation import seccomp

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="NOT TESTED HERE: no filter for this machine"
)


def under_the_filter(
    act: Callable[[], object], *, network: bool = False, alone: bool = True, hidden: tuple[int, ...] = ()
) -> int:
    """The errno with which the act fails in a child that has the filter, 0 when it works."""
    program = seccomp.filter_for(platform.machine(), network=network, alone=alone, hidden=hidden)
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
    for kind, number in (
        (socket.SOCK_STREAM, 132),
        (socket.SOCK_STREAM, 262),
        (socket.SOCK_DGRAM, 136),
    ):  # SCTP, MPTCP, UDP-Lite
        refused = under_the_filter(partial(socket.socket, socket.AF_INET, kind, number), network=True)
        assert refused == errno.EPROTONOSUPPORT
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


def test_a_thread_s_scheduling_is_still_known():
    """pthread_getschedparam asks by the thread's own number, and a runtime that is refused says so in a program's output."""

    def scheduling() -> None:
        libc = ctypes.CDLL(None)
        libc.pthread_self.restype = ctypes.c_void_p
        policy, parameters = ctypes.create_string_buffer(8), ctypes.create_string_buffer(64)
        found = libc.pthread_getschedparam(ctypes.c_void_p(libc.pthread_self()), policy, parameters)
        if found:
            raise OSError(found, "pthread_getschedparam")

    assert under_the_filter(scheduling, alone=False) == 0


def test_the_scheduling_of_a_hidden_process_is_not_told():
    hidden = (os.getpid(),)
    asked = {
        "scheduler": lambda: os.sched_getscheduler(hidden[0]),
        "parameters": get_scheduling("sched_getparam", hidden[0]),
    }

    found = {what: under_the_filter(act, alone=False, hidden=hidden) for what, act in asked.items()}
    assert found == dict.fromkeys(asked, errno.ESRCH)


def test_the_group_of_a_hidden_process_is_not_told_and_that_of_a_child_is():
    hidden = (os.getpid(), os.getppid())

    def ask_for_a_child() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.getpgid(child)
        os.waitpid(child, 0)

    for pid in hidden:
        assert under_the_filter(partial(os.getpgid, pid), alone=False, hidden=hidden) == errno.ESRCH
    assert under_the_filter(ask_for_a_child, alone=False, hidden=hidden) == 0
    assert under_the_filter(lambda: os.getpgid(0), alone=False, hidden=hidden) == 0


def test_no_process_hides_its_descriptors_at_standard():
    assert under_the_filter(lambda: linux.prctl(linux.PR_SET_DUMPABLE, 0), alone=False) == errno.EPERM
    assert under_the_filter(lambda: linux.prctl(linux.PR_SET_DUMPABLE, 1), alone=False) == 0
    assert under_the_filter(lambda: linux.prctl(linux.PR_SET_DUMPABLE, 0), alone=True) == 0
    assert under_the_filter(lambda: linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1), alone=False) == 0


@pytest.mark.parametrize("alone", [True, False])
def test_nobody_else_is_kept_waiting_by_a_lease(tmp_path, alone):
    file = tmp_path / "file"
    file.touch()
    fd = os.open(file, os.O_RDONLY)

    assert under_the_filter(lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK), alone=alone) == errno.EPERM
    assert under_the_filter(lambda: fcntl.fcntl(fd, fcntl.F_GETFL), alone=alone) == 0
    os.close(fd)


@pytest.mark.parametrize("alone", [True, False])
def test_no_space_is_taken_past_the_size_of_a_file(tmp_path, alone):
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    libc = ctypes.CDLL(None, use_errno=True)

    def reserve(mode: int) -> None:
        if libc.fallocate64(fd, mode, ctypes.c_long(0), ctypes.c_long(8192)):
            raise OSError(ctypes.get_errno(), "fallocate")

    assert under_the_filter(lambda: reserve(0x01), alone=alone) == errno.EOPNOTSUPP
    assert under_the_filter(lambda: reserve(0x11), alone=alone) == errno.EOPNOTSUPP  # zeroes, and keeps the size
    assert under_the_filter(lambda: reserve(0), alone=alone) == 0
    assert under_the_filter(lambda: reserve(0x03), alone=alone) == 0  # a hole gives space back
    os.close(fd)


def clock_of(pid: int) -> int:
    """Its processor time's (clock_getcpuclockid(3))."""
    return (~pid << 3) | 2


def test_another_process_s_processor_time_is_not_told_and_one_s_own_is():
    other = os.getppid()

    def own() -> None:
        for clock in (time.CLOCK_PROCESS_CPUTIME_ID, time.CLOCK_THREAD_CPUTIME_ID, time.CLOCK_MONOTONIC, clock_of(0)):
            time.clock_gettime(clock)
        time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident()))

    assert under_the_filter(lambda: time.clock_gettime(clock_of(other)), alone=False) == errno.EINVAL
    assert under_the_filter(lambda: time.clock_getres(clock_of(other)), alone=False) == errno.EINVAL
    assert under_the_filter(own, alone=False) == 0
    assert under_the_filter(lambda: time.clock_gettime(clock_of(other))) == 0


def test_where_names_are_others_nothing_is_told_of_changes():
    def watch() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.inotify_init1(0) < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    assert under_the_filter(watch, alone=False) == errno.ENOSYS
    assert under_the_filter(watch) == 0


@pytest.mark.parametrize("alone", [True, False])
def test_no_program_for_the_kernel_goes_to_a_socket(alone):
    def attach() -> None:
        code = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0xFFFF))
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(code)))

    def size() -> None:
        socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)

    attach()  # it does work
    assert under_the_filter(attach, alone=alone) == errno.EPERM
    assert under_the_filter(size, alone=alone) == 0


@pytest.mark.parametrize("alone", [True, False])
def test_an_open_file_tells_of_itself_and_takes_no_orders(tmp_path, alone):
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    orders = {"FS_IOC_SETFLAGS": 0x40086602, "EXT4_IOC_SETVERSION": 0x40086604, "BTRFS_IOC_SUBVOL_CREATE": 0x5000940E}

    def order(number: int) -> None:
        fcntl.ioctl(fd, number, bytes(8))

    assert {name: under_the_filter(partial(order, number), alone=alone) for name, number in orders.items()} == dict.fromkeys(
        orders, errno.ENOTTY
    )
    assert under_the_filter(lambda: fcntl.ioctl(fd, termios.FIOCLEX), alone=alone) == 0
    assert under_the_filter(lambda: fcntl.ioctl(fd, 2, bytes(4)), alone=alone) == 0  # FIGETBSZ
    os.close(fd)


@pytest.mark.parametrize("alone", [True, False])
def test_a_pair_of_sockets_tells_nothing_of_the_host_s_interfaces(alone):
    def name_of_the_first() -> None:
        fcntl.ioctl(socket.socketpair()[0], 0x8910, struct.pack("=16si20x", b"", 1))  # SIOCGIFNAME: the loopback device

    assert under_the_filter(name_of_the_first, alone=alone) == errno.ENOTTY
    assert under_the_filter(name_of_the_first, alone=alone, network=True) == 0
    assert under_the_filter(lambda: fcntl.ioctl(socket.socketpair()[0], 0x8902, struct.pack("=i", 0)), alone=alone) == 0


def test_where_names_are_others_no_attributes_are_told(tmp_path):
    file = tmp_path / "file"
    file.touch()

    assert under_the_filter(lambda: os.listxattr(file), alone=False) == errno.ENOTSUP
    assert under_the_filter(lambda: os.listxattr(file)) == 0
    with file.open() as opened:
        assert under_the_filter(lambda: os.listxattr(opened.fileno()), alone=False) == 0
