"""How many messages a second become tasks on disk?

Each is echoed as a completed task: no command, so that the protocol and the store are all that is measured. The public SDK's
server does the same with its own two stores.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

from benchmarks import host
from benchmarks.bench import Bench, said
from benchmarks.load import Load, drive, request
from benchmarks.result import Goal, Row, percentile

CONNECTIONS = 16


def _ours(daemon: host.Host) -> Callable[[], bytes]:
    headers = {name: value for name, value in daemon.headers.items() if name != "A2A-Extensions"}
    return lambda: request(daemon.port, "/message:send", headers, host.message_body())


def _theirs(port: int) -> Callable[[], bytes]:
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}

    def make() -> bytes:
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        return request(port, "/", headers, json.dumps(call).encode())

    return make


def _p99_ms(load: Load) -> float:
    return percentile(load.late_s, 99) * 1e3


def rows(bench: Bench) -> Iterator[Row]:
    """Requests a second and their 99th percentile, all servers in turn."""
    seconds = max(1.0, 4 * bench.scale)
    with (
        host.running(bench.folder / "sending") as daemon,
        bench.peer("sdk_server", "memory") as memory,
        bench.peer("sdk_server", "sqlite") as sqlite,
        bench.peer("echo_server") as echo,
    ):
        ports = {name: int(said(peer)) for name, peer in (("memory", memory), ("sqlite", sqlite), ("echo", echo))}
        makers = {"ours": (daemon.port, _ours(daemon)), **{name: (port, _theirs(port)) for name, port in ports.items()}}
        loads: dict[str, list[Load]] = {name: [] for name in makers}
        for number in range(bench.count(5) + 1):
            for name, (port, make) in makers.items():
                load = drive(port, make, connections=CONNECTIONS, seconds=seconds)
                if number:  # the first round warms up
                    loads[name].append(load)
    rates = {name: tuple(load.per_second for load in found) for name, found in loads.items()}
    late = {name: tuple(_p99_ms(load) for load in found) for name, found in loads.items()}
    what = f"send with one durable commit, {CONNECTIONS} connections"
    share = sorted(rates["ours"])[len(rates["ours"]) // 2] / sorted(rates["echo"])[len(rates["echo"]) // 2]
    note = f"{share:.2f}x of a bare uvicorn echo"
    yield Row(what, "a2a-sdk InMemory", Goal("least", 2.5), "/s", rates["ours"], rates["memory"], note=note)
    yield Row(what, "a2a-sdk SQLite store", Goal("least", 15), "/s", rates["ours"], rates["sqlite"])
    yield Row("p99 of the same", "a2a-sdk InMemory", Goal("most", 0.3), "ms", late["ours"], late["memory"])
