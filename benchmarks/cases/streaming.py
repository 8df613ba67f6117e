"""What does it cost that many listen to one task?"""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from collections.abc import Iterator

from benchmarks import host
from benchmarks.bench import Bench
from benchmarks.result import Goal, Row, percentile

_AT = re.compile(rb"at (\d+)")
MANY = 100


def _delivery_ms(daemon: host.Host, task_id: str, subscribers: int, seconds: float) -> float:
    """The median over all deliveries of: a line's arrival less the time that it names. The first of each event counts."""
    late: list[float] = []
    names = "".join(f"{name}: {value}\r\n" for name, value in daemon.headers.items())
    call = f"GET /tasks/{task_id}:subscribe HTTP/1.1\r\nHost: 127.0.0.1\r\n{names}\r\n".encode()
    with selectors.DefaultSelector() as selector:
        socks = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(subscribers)]
        try:
            for sock in socks:
                sock.sendall(call)
                selector.register(sock, selectors.EVENT_READ, sock)
            begins = time.monotonic() + 1  # the past is told first
            while (now := time.monotonic()) < begins + seconds:
                for key, _ in selector.select(1):
                    data = key.data.recv(262_144)
                    now_ns = time.monotonic_ns()
                    if not data:
                        raise RuntimeError("a stream ended")
                    found = _AT.findall(data)
                    if found and now > begins:
                        late.append((now_ns - int(found[-1])) / 1e6)
        finally:
            for sock in socks:
                sock.close()
    return percentile(late, 50)


def rows(bench: Bench) -> Iterator[Row]:
    """One subscriber and a hundred, in turn, on a program that says the time 50 times a second."""
    seconds = max(1.5, 3 * bench.scale)
    with host.running(bench.folder / "streaming") as daemon:
        line = daemon.line()
        many, one = [], []
        for _ in range(bench.count(4)):
            task_id = json.loads(line.call("POST", "/message:send", host.send_body("ticker.py")))["task"]["id"]
            one.append(_delivery_ms(daemon, task_id, 1, seconds))
            many.append(_delivery_ms(daemon, task_id, MANY, seconds))
            line.call("POST", f"/tasks/{task_id}:cancel", b"{}")
    what = f"SSE: {MANY} subscribers, 50 events/s, delivery p50"
    yield Row(what, "1 subscriber", Goal("most", 5), "ms", tuple(many), tuple(one))
