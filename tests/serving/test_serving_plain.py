"""Does a plain connection give what was sent, take what fits, and tell whoever waits that it is closed?"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from sandboxd.serving.plain import PlainStream

LARGE = bytes(4_000_000)  # more than a socket holds


@pytest.fixture
async def ends():
    ours, theirs = trio.socket.socketpair()
    stream = PlainStream(ours)
    yield stream, theirs
    stream.close()
    theirs.close()


async def receive_all(sock, count):
    got = 0
    while got < count:
        got += len(await sock.recv(65536))
    return got


async def test_what_was_sent_is_received_and_then_the_end(ends):
    stream, theirs = ends
    await theirs.send(b"hello")
    theirs.shutdown(trio.socket.SHUT_WR)

    assert (await stream.receive_some(100), await stream.receive_some(100)) == (b"hello", b"")


async def test_only_what_the_kernel_has_room_for_is_taken_at_once(ends):
    stream, _ = ends

    first = stream.send_nowait(memoryview(LARGE))

    assert 0 < first < len(LARGE)
    assert stream.send_nowait(memoryview(LARGE)) == 0


async def test_all_of_a_large_piece_is_sent_as_the_peer_takes_it(ends):
    stream, theirs = ends
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, memoryview(LARGE))
        with trio.fail_after(20):
            got = await receive_all(theirs, len(LARGE))

    assert got == len(LARGE)


async def test_whoever_waits_for_more_is_told_that_it_is_closed(ends):
    stream, _ = ends
    with trio.fail_after(20), pytest.RaisesGroup(trio.ClosedResourceError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.receive_some, 100)
            await trio.testing.wait_all_tasks_blocked()
            stream.close()


async def test_a_closed_one_takes_and_gives_nothing(ends):
    stream, _ = ends
    stream.close()

    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some(100)
    with pytest.raises(trio.ClosedResourceError):
        stream.send_nowait(memoryview(b"x"))


async def test_what_nobody_takes_any_more_is_said(ends):
    stream, theirs = ends
    theirs.close()

    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(memoryview(b"x"))
