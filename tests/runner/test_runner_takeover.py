"""What can somebody get out of the spawner who has taken over the daemon's end of the socket?"""

from __future__ import annotations

import array
import math
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from sandboxd.runner import birth
from sandboxd.runner.protocol import MAX_FDS, MAX_FRAME_BYTES, FrameReader, encode, to_json
from tests.runner.workshop import NO_CGROUP, Workshop, wait_until

MAX_RUNS = 5

# Changes of a request that is allowed.
OTHER_THAN_ALLOWED: Final[tuple[dict[str, Any], ...]] = (
    {"command__command": ["bash", "-c", "id"]},
    {"command__command": ["/bin/sh", "runner.sh", "--request", "requests/one.json"]},
    {"command__command": ["bash", "runner.sh", "--request", "requests/../../../etc/passwd"]},
    {"command__command": "bash"},
    {"command__command": [["bash"], "runner.sh", "--request", "requests/one.json"]},
    {"command__mode": "apply"},
    {"command__mode": ["plan"]},
    {"command__adapter": "sh"},
    {"command__adapter": None},
    {"command__working_dir": "/"},
    {"command__working_dir": 5},
    {"command__timeout_s": 10_000},
    {"command__timeout_s": -1},
    {"command__timeout_s": math.nan},
    {"command__timeout_s": math.inf},
    {"command__timeout_s": True},
    {"command__text_line": "always"},
    {"command__program": "/bin/sh"},
    {"instance": "elsewhere"},
    {"instance": {}},
    {"task_id": "a\0b"},
    {"message_text": None},
    {"message_text": "x" * 140_000},
    {"isolation": "none"},
    {"env": {"LD_PRELOAD": "/tmp/x.so"}},
    {"plan": {"program": "/bin/sh", "argv": ["sh"], "cwd": "."}},
    {"limits": {"timeout_s": 10_000}},
    {"command": None},
    {"command": []},
)


@attrs.define
class Intruder:
    """The daemon's end of a spawner's socket, spoken by hand."""

    process: subprocess.Popen[bytes]
    sock: socket.socket
    ready: dict[str, Any] = attrs.field(factory=dict)
    _reader: FrameReader = attrs.field(factory=FrameReader)
    _number: int = 0

    def say(self, data: bytes) -> None:
        self.sock.sendall(data)

    def hear(self) -> dict[str, Any]:
        """The next frame; its descriptors are closed unread."""
        while (received := self._reader.next_frame()) is None:
            data, rights, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(MAX_FDS * 4))
            if not data:
                raise EOFError
            for _, _, raw in rights:
                for fd in array.array("i", raw):
                    os.close(fd)
            self._reader.feed(data)
        return received[0]

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """The reply to one request."""
        self._number += 1
        self.say(encode({"do": do, "id": self._number, **fields}))
        while (frame := self.hear()).get("re") != self._number:
            pass
        return frame

    def ends(self) -> int:
        """Its exit status: it has nothing more to say."""
        with pytest.raises((EOFError, ConnectionResetError)):
            while True:
                self.hear()
        return self.process.wait(10)


@pytest.fixture
def intrude(shop: Workshop) -> Iterator[Callable[..., Intruder]]:
    made: list[Intruder] = []

    def start(**changes: Any) -> Intruder:
        setup = attrs.evolve(shop.setup(), **{"max_runs": MAX_RUNS, **changes})
        ours, theirs = socket.socketpair()
        ours.settimeout(20)
        with theirs:
            process = subprocess.Popen(birth.command(theirs.fileno()), pass_fds=(theirs.fileno(),), cwd="/", env={})
        intruder = Intruder(process, ours)
        made.append(intruder)
        intruder.say(encode({"setup": to_json(setup)}))
        intruder.ready = intruder.hear()
        assert intruder.ready["ready"]
        return intruder

    yield start
    for intruder in made:
        intruder.sock.close()
        intruder.process.wait(10)


@pytest.fixture
def intruder(intrude: Callable[..., Intruder], shop: Workshop) -> Intruder:
    """One that has a run already."""
    shop.write("touch up; exec sleep 60", "runner.sh")
    made = intrude()
    assert "run" in made.ask("start", request=to_json(shop.request("bash")))
    assert wait_until((shop.root / "up").exists, 10)
    return made


def changed(shop: Workshop, **changes: Any) -> dict[str, Any]:
    """A request that is allowed, but for these fields; those of the command are named `command__…`."""
    request: dict[str, Any] = to_json(shop.request("bash"))
    for name, value in changes.items():
        where = request["command"] if name.startswith("command__") else request
        where[name.removeprefix("command__")] = value
    return request


def test_what_the_policy_does_not_allow_is_not_started_whatever_the_request_looks_like(intrude, shop):
    shop.write("touch ran", "runner.sh")
    intruder = intrude()

    for change in OTHER_THAN_ALLOWED:
        reply = intruder.ask("start", request=changed(shop, **change))
        assert "run" not in reply, change
        assert reply.get("denied") or reply.get("failed"), change
    assert intruder.ask("start").get("failed")
    assert not (shop.root / "ran").exists()

    assert "run" in intruder.ask("start", request=changed(shop))  # and it goes on for everybody else
    assert wait_until((shop.root / "ran").exists, 10)


def test_words_beside_the_request_change_nothing(intrude, shop):
    shop.write("exit 0", "runner.sh")
    intruder = intrude()

    reply = intruder.ask(
        "start", request=changed(shop), isolation="none", cgroup="/", max_runs=9999, setup={"isolation": "none"}
    )

    assert reply["plan"]["isolation"] == shop.setup().isolation
    assert reply["plan"]["argv"] == ["bash", "runner.sh", "--request", "requests/one.json"]


def frame(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!I", 0xFFFFFFFF),
        struct.pack("!I", MAX_FRAME_BYTES + 1) + b"{",
        frame(b""),
        frame(b"[]"),
        frame(b"nonsense"),
        frame(b"\xff\xfe"),
        frame(b"[" * 200_000),
        frame(b'{"do":"start"'),
        encode({}),
        encode({"do": "start"}),
        encode({"do": "exec", "id": 1, "argv": ["/bin/sh"]}),
        encode({"do": ["start"], "id": 1}),
        encode({"do": "signal", "id": 1, "run": 1, "signal": "SIGNONE"}),
        encode({"do": "signal", "id": 1, "run": [], "signal": "SIGINT"}),
        encode({"do": "end", "id": 1}),
        encode({"setup": {"isolation": "none", "instances": [], "programs": {}}}),
    ],
    ids=range(16),
)
def test_what_is_no_request_ends_everything_and_starts_nothing(intruder, shop, data):
    intruder.say(data.ljust(4, b"\xff"))

    assert intruder.ends() == 1
    assert wait_until(lambda: not shop.alive(), 10)
    base = intruder.ready["cgroup"]
    assert not base or not Path(base).exists()


def test_half_a_frame_holds_up_nothing(intruder, shop):
    intruder.say(struct.pack("!I", 1000) + b"{")
    (pid,) = shop.alive()
    os.kill(pid, signal.SIGKILL)

    assert intruder.hear() == {"exited": 1, "signal": "SIGKILL", "oom": False}
    intruder.sock.shutdown(socket.SHUT_WR)
    assert intruder.ends() == 0


def test_descriptors_that_come_with_requests_are_not_kept(intruder):
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]
    before = slots_of(intruder)
    body = encode({"do": "signal", "id": 0, "run": 99, "signal": "SIGINT"})
    for _ in range(50):
        assert socket.send_fds(intruder.sock, [body], fds) == len(body)
        assert intruder.hear() == {"re": 0}
    for fd in fds:
        os.close(fd)

    assert slots_of(intruder) == before


def slots_of(intruder: Intruder) -> int:
    """How many descriptors the spawner has room for, which grows with the highest that it ever had."""
    return status_of(intruder, "FDSize")


def status_of(intruder: Intruder, name: str) -> int:
    lines = Path(f"/proc/{intruder.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def test_thousands_of_requests_that_nobody_reads_the_replies_of_take_no_memory(intruder, shop):
    before_kib = status_of(intruder, "VmRSS")
    request = encode({"do": "preview", "id": 1, "request": changed(shop, message_text="x" * 10_000)})
    intruder.sock.setblocking(False)
    sent = refused = 0
    while refused < 200 and sent < 100_000_000:
        try:
            sent += intruder.sock.send(request[sent % len(request) :])
            refused = 0
        except BlockingIOError:
            refused += 1
            wait_until(lambda: False, 0.01)
    assert refused, "it reads without end"

    assert status_of(intruder, "VmRSS") - before_kib < 100_000
    intruder.sock.setblocking(True)
    for _ in range(sent // len(request)):
        while (reply := intruder.hear()).get("re") != 1:
            pass
        assert "plan" in reply


def test_no_more_runs_than_the_host_takes_are_there_at_a_time(intruder, shop):
    replies = [intruder.ask("start", request=changed(shop, task_id=f"t-{number}")) for number in range(30)]

    runs = [reply["run"] for reply in replies if "run" in reply]
    assert len(runs) == MAX_RUNS - 1  # one was there
    assert {reply["failed"][1] for reply in replies if "failed" in reply} == {
        f"cannot start anything: {MAX_RUNS} runs are there, which is this host's limit"
    }
    assert intruder.ask("end", run=runs[0])["left"] == []
    assert "run" in intruder.ask("start", request=changed(shop))


@pytest.mark.parametrize("cgroup", [None, NO_CGROUP], ids=["cgroup", "sweep"])
def test_a_run_that_nobody_ends_is_ended_when_its_time_is_long_over(intrude, shop, cgroup):
    shop.write("trap '' TERM INT HUP; setsid sleep 60 & touch up; sleep 60", "runner.sh")
    intruder = intrude(cgroup=cgroup, late_s=0.5)

    intruder.ask("start", request=changed(shop, command__timeout_s=1))
    assert wait_until((shop.root / "up").exists, 10)

    assert intruder.hear()["signal"] == "SIGKILL"
    assert wait_until(lambda: not shop.alive(), 10)


def test_an_environment_that_exec_cannot_carry_is_refused_with_the_reason(intrude, shop):
    word = "x" * 100_000
    instance = shop.setup().instances[0]
    policy = shop.policies / "large.toml"
    policy.write_text(
        f"""
format = 1
adapter = "large"

[command]
program = "bash"
argv = ["bash", "runner.sh", "{{word}}"]
env = {{ {", ".join(f'V{number} = "{{word}}"' for number in range(70))} }}

[hole.mode]
one-of = ["plan"]

[hole.word]
one-of = ["{word}"]
"""
    )  # 7 MB: more than any kernel takes (3/4 of _STK_LIM, execve(2)), and each variable within what it takes
    policy.chmod(0o644)
    shop.write("touch ran", "runner.sh")
    intruder = intrude(instances=(attrs.evolve(instance, policies=(*instance.policies, str(policy))),))

    reply = intruder.ask("start", request=changed(shop, command__adapter="large", command__command=["bash", "runner.sh", word]))

    assert reply["failed"] == ["exec-failed", "cannot start `/bin/bash`: cannot execute it: argument list too long"]
    assert not (shop.root / "ran").exists()
    assert not shop.alive()
    assert "run" in intruder.ask("start", request=changed(shop))
