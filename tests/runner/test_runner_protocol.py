"""Do frames and values survive the socket, however it cuts them?"""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.policy.adapter import AdapterCommand
from sandboxd.policy.model import CheckedPath, LaunchPlan, Limits, PromptRules
from sandboxd.runner.outbox import Outbox
from sandboxd.runner.protocol import (
    MAX_FRAME_BYTES,
    Frame,
    FrameReader,
    InstanceSetup,
    ProtocolError,
    RunRequest,
    SpawnerSetup,
    encode,
    plan_from_json,
    request_from_json,
    setup_from_json,
    to_json,
)

texts = st.text(st.characters(codec=None, categories=None))  # lone surrogates and control characters too


@given(st.lists(st.dictionaries(texts, texts, max_size=3), max_size=4), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames, cuts):
    data = b"".join(map(encode, frames))
    reader = FrameReader()
    found = []
    position = turn = 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        turn += 1
        reader.feed(data[position : position + size])
        position += size
        while (received := reader.next_frame()) is not None:
            found.append(received)

    assert found == [(frame, ()) for frame in frames]


def test_a_frame_larger_than_the_bound_is_refused_on_both_sides():
    with pytest.raises(ProtocolError, match="at most"):
        encode({"text": "x" * MAX_FRAME_BYTES})
    reader = FrameReader()
    reader.feed(struct.pack("!I", MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError, match="at most"):
        reader.next_frame()


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_frame_is_refused(body):
    reader = FrameReader()
    reader.feed(struct.pack("!I", len(body)) + body)

    with pytest.raises(ProtocolError):
        reader.next_frame()


def test_descriptors_stay_with_their_frames():
    ours, theirs = socket.socketpair()
    reader = FrameReader()
    with ours, theirs:
        outbox = Outbox(theirs)
        outbox.put({"n": 0})
        outbox.put({"n": 1, "pad": "x" * 200_000}, [os.open("/", os.O_PATH)])
        outbox.put({"n": 2})
        outbox.put({"n": 3}, [os.open("/dev", os.O_PATH), os.open("/proc", os.O_PATH)])
        theirs.setblocking(False)
        found: list[tuple[Frame, tuple[int, ...]]] = []
        while len(found) < 4:
            outbox.flush()
            data, rights, _, _ = ours.recvmsg(70_000, socket.CMSG_SPACE(12))
            came = [fd for _, _, raw in rights for fd in memoryview(raw).cast("i")]
            reader.feed(data, came or None)
            while (received := reader.next_frame()) is not None:
                found.append(received)
        assert outbox.is_empty

    names = [(frame["n"], [str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in fds]) for frame, fds in found]
    for _, fds in found:
        for fd in fds:
            os.close(fd)
    assert names == [(0, []), (1, ["/"]), (2, []), (3, ["/dev", "/proc"])]


def test_an_outbox_says_when_it_is_full_and_when_it_is_empty():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        outbox = Outbox(theirs)
        outbox.put({"pad": "x" * 5_000_000})
        outbox.flush()
        assert outbox.is_full
        left = len(encode({"pad": "x" * 5_000_000}))
        while left:
            left -= len(ours.recv(1_000_000))
            outbox.flush()

        assert outbox.is_empty
        assert not outbox.is_full


@pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED HERE: root's descriptors are not counted (scripts/as-tester)")
def test_descriptors_that_the_kernel_does_not_take_hold_up_nothing_else():
    """Somebody of this user has too many of them on their way (unix(7), ETOOMANYREFS)."""
    ours, theirs = socket.socketpair()
    hoard = [socket.socketpair() for _ in range(2)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ours, theirs:
        for _, sender in hoard:
            sender.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [theirs.fileno()] * 250))])
        outbox = Outbox(theirs)
        fd = os.open("/", os.O_PATH)
        outbox.put({"run": 1}, [fd])
        outbox.put({"n": 2})
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
        try:
            outbox.flush()
            is_held_at_first = not outbox.is_empty
            while not outbox.is_empty:
                outbox.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        data, rights, _, _ = ours.recvmsg(70_000, socket.CMSG_SPACE(12))
    for pair in hoard:
        for sock in pair:
            sock.close()

    reader = FrameReader()
    reader.feed(data)
    assert is_held_at_first
    assert rights == []
    assert [reader.next_frame() for _ in range(2)] == [({"run": 1, "fds": 0, "lost": True}, ()), ({"n": 2}, ())]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_values_survive_the_socket():
    setup = SpawnerSetup((InstanceSetup("a", "/srv", "/workspace", ("/p.toml",)),), {"node": "/usr/bin/node"}, cgroup="/c")
    request = RunRequest("t", "c", "a", AdapterCommand("x", "plan", ("node", "ü\udc80"), "/workspace", 5, True), "text")
    plan = LaunchPlan(
        adapter="x",
        mode="plan",
        program="/bin/true",
        argv=("true", "a"),
        cwd=".",
        env={"A": "b"},
        paths=(CheckedPath("request", "r", "file", ("sha256:0",)),),
        limits=Limits(memory_bytes=5),
        prompts=PromptRules(("shell",), 5, "fail", 3),
        terminal=True,
        isolation="none",
        policy="p",
        policy_digest="sha256:0",
        isolation_notes=("a note",),
    )

    def sent(value: object) -> dict[str, object]:
        body = encode(to_json(value))[4:]
        frame: dict[str, object] = json.loads(body.decode("utf-8", "surrogatepass"))
        return frame

    assert setup_from_json(sent(setup)) == setup
    assert request_from_json(sent(request)) == request
    assert plan_from_json(sent(plan)) == plan
