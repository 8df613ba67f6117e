"""Does a stop of the whole daemon end in time, whatever is connected to it?

The bounds are 0.5 s with idle connections, and with clients that take nothing 0.5 s more than the three seconds of the doors,
which begin with the stop; what is asserted leaves room for a busy machine.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

from tests.support.daemon import Daemon

ROOM_S = 6.0
GRACE_S = 3.0  # `DoorSettings.graceful_s`
CALM = '[limits]\nkeepalive = "1h"\nmax_unsent = "1GiB"\n'


def test_idle_connections_hold_up_no_stop(make_daemon: Callable[..., Daemon]):
    daemon = make_daemon(extra=CALM)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            sock = stack.enter_context(asked(daemon, "GET", "/healthz"))
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        took_s = stop(daemon)

    assert took_s < 0.5 + ROOM_S


def test_clients_that_take_nothing_hold_up_a_stop_for_the_grace_alone(make_daemon: Callable[..., Daemon]):
    daemon = make_daemon(extra=CALM)
    ended = daemon.run([["flood", 8_000_000]])
    live = daemon.run([["flood", 8_000_000], ["hang"]], wait=False)
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(asked(daemon, "GET", f"/tasks/{ended['id']}"))
            stack.enter_context(asked(daemon, "POST", f"/tasks/{live['id']}:subscribe", "Last-Event-ID: 1"))
            assert stack.enter_context(asked(daemon, "GET", f"/tasks/{ended['id']}/artifacts/terminal")).recv(1)
        took_s = stop(daemon)

    assert took_s < GRACE_S + 0.5 + ROOM_S


@contextlib.contextmanager
def asked(daemon: Daemon, method: str, path: str, *headers: str) -> Iterator[socket.socket]:
    """A connection that has asked for something, and takes what fits into its kernel's smallest buffer."""
    host, _, port = daemon.url.removeprefix("http://").partition(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect((host, int(port)))
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "A2A-Version: 1.0", f"Authorization: Bearer {daemon.token}"]
        sock.sendall("\r\n".join([*lines, *headers, "Content-Length: 0", "", ""]).encode())
        yield sock


def stop(daemon: Daemon) -> float:
    began = time.monotonic()
    assert daemon.stop() == 0
    return time.monotonic() - began
