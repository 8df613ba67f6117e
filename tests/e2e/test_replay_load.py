"""Two hundred streams, cut at random points and resumed by number: is anything lost, doubled or out of order?"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import attrs
import trio

from tests.support.daemon import Daemon, output_of, state_of

STREAMS = 200
TASKS = 10
LINES = 24
CUTS_MAX = 8  # a stream; bounded, so that the last connection reads to the end
ALL_S = 90.0


@attrs.frozen
class Frame:
    """One event as it stood on the wire."""

    seq: int
    item: dict[str, Any]


def test_200_streams_that_are_cut_and_resumed_lose_double_and_reorder_nothing(make_daemon):
    daemon: Daemon = make_daemon()
    seed = uuid.uuid4().int
    steps = [step for n in range(LINES) for step in (["print", f"line {n}\n"], ["sleep", 60])]
    tasks = [daemon.run(steps, wait=False)["id"] for _ in range(TASKS)]
    told: dict[int, list[Frame]] = {}

    async def follow(number: int) -> None:
        told[number] = await follow_with_cuts(daemon, tasks[number % TASKS], random.Random(seed + number))

    async def follow_all() -> None:
        with trio.fail_after(ALL_S):
            async with trio.open_nursery() as nursery:
                for number in range(STREAMS):
                    nursery.start_soon(follow, number)

    trio.run(follow_all)

    ends = {task_id: daemon.get(task_id) for task_id in tasks}
    assert all(state_of(task) == "COMPLETED" for task in ends.values())
    for number, frames in told.items():
        task = ends[tasks[number % TASKS]]
        first = frames[0].seq
        assert [frame.seq for frame in frames] == list(range(first, first + len(frames))), (seed, number)
        assert frames[-1].item["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED", (seed, number)
        assert printed(frames) == output_of(task), (seed, number)
    for index in range(TASKS):  # everybody saw the same
        same = [told[number] for number in range(index, STREAMS, TASKS)]
        seen: dict[int, dict[str, Any]] = {}
        for frame in (frame for frames in same for frame in frames[1:]):
            assert seen.setdefault(frame.seq, frame.item) == frame.item


def printed(frames: list[Frame]) -> str:
    """The output that a stream told: what its first snapshot holds, then every piece."""
    text = output_of(frames[0].item["task"])
    for frame in frames[1:]:
        if update := frame.item.get("artifactUpdate"):
            text += "".join(part["text"] for part in update["artifact"]["parts"])
    return text


async def follow_with_cuts(daemon: Daemon, task_id: str, chance: random.Random) -> list[Frame]:
    """Every event once: each new connection begins with a snapshot at the last number, which is no event of its own."""
    frames: list[Frame] = []
    for cut in range(CUTS_MAX + 1):
        events_left = chance.randint(1, 12) if cut < CUTS_MAX else 10_000
        bytes_torn = chance.randint(0, 200)
        stream = await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        async with stream, aclosing(received(stream)) as answer:
            after = frames[-1].seq if frames else None
            await stream.send_all(request(daemon, task_id, after))
            async for frame in answer:
                if after is not None and frame.seq == after:
                    assert "task" in frame.item
                    continue
                frames.append(frame)
                events_left -= 1
                if is_last(frame):
                    return frames
                if events_left == 0:
                    await stream.receive_some(bytes_torn or 1)  # in the middle of a frame, perhaps
                    break
    raise AssertionError(f"the stream of task {task_id} ended before its task did")


def request(daemon: Daemon, task_id: str, after: int | None) -> bytes:
    # The first time from the very first event: the task may have ended before this stream's turn.
    lines = [
        f"POST /tasks/{task_id}:subscribe HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {daemon.token}",
        "A2A-Version: 1.0",
        "Content-Length: 0",
        f"Last-Event-ID: {after or 1}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def received(stream: trio.SocketStream) -> AsyncGenerator[Frame, None]:
    """The events of an answer in chunks (RFC 9112 §7.1)."""
    buffered, text = b"", b""
    head_read = False
    while True:
        piece = await stream.receive_some()
        if not piece:
            return
        buffered += piece
        if not head_read:
            if b"\r\n\r\n" not in buffered:
                continue
            head, _, buffered = buffered.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            head_read = True
        while b"\r\n" in buffered:
            size_text, _, rest = buffered.partition(b"\r\n")
            size = int(size_text, 16)
            if len(rest) < size + 2:
                break
            text, buffered = text + rest[:size], rest[size + 2 :]
        while b"\n\n" in text:
            event, _, text = text.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if not line.startswith(":"))
            if "data" in fields:
                assert "event" not in fields, fields
                yield Frame(int(fields["id"]), json.loads(fields["data"]))


def is_last(frame: Frame) -> bool:
    update = frame.item.get("statusUpdate")
    return update is not None and update["status"]["state"] == "TASK_STATE_COMPLETED"
