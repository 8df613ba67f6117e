"""Who can be reached from inside a task? (a process that notes down whoever reached it, and how)

Run by the harness outside of every sandbox, as the same user. First it prints where it can be found; for every line on stdin it
prints what has happened since it began. Whoever sends it something sends their own name.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pty
import resource
import selectors
import signal
import socket
import sys
import termios
import tty
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.hostile.attacks.craft import syscall
from tests.hostile.attacks.signals import SIGNALS

IPC_CREAT, IPC_RMID = 0o1000, 0
KEYRING_OF_USER, KEYCTL_UNLINK = -4, 9
LOOK_S = 0.1


def say(what: object) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - whoever started it reads its standard output


class Victim:
    """Everything an attacker could want of a neighbour."""

    def __init__(self, folder: str, tag: str) -> None:
        self.touched: set[str] = set()
        self.tag = tag
        self.memory = ctypes.create_string_buffer(b"secret of the victim", 64)
        self.selector = selectors.DefaultSelector()
        for name, number in SIGNALS.items():
            signal.signal(number, partial(self.hit, name))
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave, termios.TCSANOW)
        os.set_blocking(self.master, False)
        self.shm_key = int.from_bytes(os.urandom(3), "big") + 1
        self.shm = syscall("shmget", self.shm_key, 4096, IPC_CREAT | 0o600)
        self.key_name = f"{tag}of-the-victim"
        with suppress(OSError):  # a host without keyrings, or that forbids them
            self.key = syscall("add_key", b"user", self.key_name.encode(), b"x", 1, KEYRING_OF_USER)
        self.facts = {
            "key_name": self.key_name,
            "victim": os.getpid(),
            "victim_group": os.getpgid(0),
            "victim_address": ctypes.addressof(self.memory),
            "tty": os.ttyname(self.slave),
            "shm_key": self.shm_key,
            "abstract": f"{tag}abstract",
            "unix": f"{folder}/stream.sock",
            "datagram": f"{folder}/datagram.sock",
            "notify": f"{folder}/notify.sock",
            "tcp": self.listen(socket.AF_INET, "127.0.0.1"),
            "tcp6": self.listen(socket.AF_INET6, "::1"),
        }
        self.listen(socket.AF_UNIX, "\0" + str(self.facts["abstract"]))
        self.listen(socket.AF_UNIX, str(self.facts["unix"]))
        self.take(socket.AF_UNIX, str(self.facts["datagram"]))
        self.take(socket.AF_UNIX, str(self.facts["notify"]))
        self.facts["udp"] = self.take(socket.AF_INET, ("127.0.0.1", 0))
        self.before = self.state()

    def hit(self, name: str, _number: int, _frame: object) -> None:
        self.touched.add(name)

    def listen(self, family: int, address: str) -> int:
        sock = socket.socket(family)
        try:
            sock.bind(address if family == socket.AF_UNIX else (address, 0))
        except OSError:
            return 1  # a host without IPv6
        sock.listen(16)
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, self.accept)
        return 0 if family == socket.AF_UNIX else int(sock.getsockname()[1])

    def take(self, family: int, address: object) -> int:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.bind(address)  # type: ignore[arg-type]  # a path for AF_UNIX, else a pair, which no type of `bind` can say
        self.selector.register(sock, selectors.EVENT_READ, self.note)
        return 0 if family == socket.AF_UNIX else int(sock.getsockname()[1])

    def accept(self, sock: socket.socket) -> None:
        peer, _ = sock.accept()
        self.selector.register(peer, selectors.EVENT_READ, self.note)

    def note(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(sock)
            sock.close()
        self.touched.update(data.decode(errors="replace").split())

    def look_at_names(self) -> None:
        """Names of abstract sockets that somebody has taken in this network."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        names = (line.rpartition("@")[2] for line in lines if "@" + self.tag in line)
        self.touched.update(name.removeprefix(self.tag) for name in names if not name.endswith("abstract"))

    def state(self) -> dict[str, object]:
        """What an attack changes without a word."""
        return {
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "affinity": sorted(os.sched_getaffinity(0)),
            "scheduler": os.sched_getscheduler(0),
            "io priority": syscall("ioprio_get", 1, 0),
            "limits": [resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)],
            "memory": self.memory.value.decode(),
            "tracer": Path("/proc/self/status").read_text().partition("TracerPid:")[2].split()[0],
            "typed": bool(fcntl.ioctl(self.slave, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0"),
            "shared memory": self.shared(),
            "session of the terminal": self.session(),
        }

    def shared(self) -> str:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(self.shm, None, 0)
        return "" if address is None else ctypes.string_at(address, 64).rstrip(b"\0").decode(errors="replace")

    def session(self) -> str:
        try:
            return str(os.tcgetpgrp(self.master))
        except OSError:
            return "none"

    def report(self) -> dict[str, object]:
        try:
            seen = os.read(self.master, 65_536)
        except BlockingIOError:
            seen = b""
        self.touched.update(seen.decode(errors="replace").split())
        now = self.state()
        changed = {name: f"{self.before[name]} → {now[name]}" for name in now if now[name] != self.before[name]}
        return {"touched": sorted(self.touched), "changed": changed}

    def serve(self) -> None:
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        say(self.facts)
        while True:
            self.look_at_names()
            for key, _ in self.selector.select(LOOK_S):
                if key.data is not None:
                    key.data(key.fileobj)
                    continue
                if not os.read(0, 4096):
                    return
                for other, _ in self.selector.select(0):
                    if other.data is not None:
                        other.data(other.fileobj)
                say(self.report())

    def end(self) -> None:
        syscall("shmctl", self.shm, IPC_RMID, 0)
        with suppress(OSError, AttributeError):
            syscall("keyctl", KEYCTL_UNLINK, self.key, KEYRING_OF_USER)


if __name__ == "__main__":
    victim = Victim(sys.argv[1], sys.argv[2])
    try:
        victim.serve()
    finally:
        victim.end()
