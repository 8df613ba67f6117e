"""Reading to the end, from real pipes and real terminals."""

import fcntl
import os
import pty
import struct
import termios
import tty

import pytest
import trio
import trio.testing

from sandboxd.live.reader import READ_MAX, Reader


async def test_a_pipe_is_read_to_its_end():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    seen = bytearray()

    async def take(data: bytes) -> None:
        seen.extend(data)

    reader = Reader(read_fd, take)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        os.write(write_fd, b"all of it")
        os.close(write_fd)
        assert await reader.drained(1.0, 5.0)

    os.close(read_fd)
    assert bytes(seen) == b"all of it"


async def test_a_terminal_that_was_closed_and_opened_again_is_read_on():
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    os.set_blocking(master, False)
    seen = bytearray()
    grew = trio.Event()

    async def take(data: bytes) -> None:
        nonlocal grew
        seen.extend(data)
        grew.set()
        grew = trio.Event()

    reader = Reader(master, take)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        os.write(slave, b"one ")
        while b"one" not in seen:
            await grew.wait()
        os.close(slave)
        again = os.open(name, os.O_RDWR | os.O_NOCTTY)
        os.write(again, b"two")
        while b"two" not in seen:
            await grew.wait()
        os.close(again)
        reader.expect_end()
        assert await reader.drained(2.0, 5.0)

    os.close(master)
    assert bytes(seen) == b"one two"


async def test_a_descriptor_that_somebody_holds_open_is_given_up_after_silence():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)

    async def take(data: bytes) -> None:
        pass

    reader = Reader(read_fd, take)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        assert not await reader.drained(0.05, 5.0)
        nursery.cancel_scope.cancel()
    os.close(read_fd)
    os.close(write_fd)


async def test_a_descriptor_that_somebody_else_never_stops_writing_to_is_given_up_too():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)

    async def take(data: bytes) -> None:
        os.write(write_fd, data)  # there is always more
        await trio.lowlevel.checkpoint()

    reader = Reader(read_fd, take)
    async with trio.open_nursery() as nursery:
        os.write(write_fd, b"more")
        nursery.start_soon(reader.run)
        with trio.fail_after(20):
            assert not await reader.drained(0.3, 0.1)
        nursery.cancel_scope.cancel()
    os.close(read_fd)
    os.close(write_fd)


async def test_a_reading_that_is_held_back_is_not_given_up_for_that():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    gate = trio.Event()
    seen = bytearray()

    async def take(data: bytes) -> None:
        await gate.wait()
        seen.extend(data)

    reader = Reader(read_fd, take)
    drained: list[bool] = []

    async def drain() -> None:
        drained.append(await reader.drained(0.05, 0.05))

    os.write(write_fd, b"all of it")
    os.close(write_fd)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(drain)
        with trio.move_on_after(0.3):
            await trio.sleep_forever()
        assert drained == []
        gate.set()

    os.close(read_fd)
    assert drained == [True]
    assert bytes(seen) == b"all of it"


async def test_a_word_of_the_terminal_is_told_beside_what_is_read():
    master, slave = pty.openpty()
    tty.setraw(slave)
    fcntl.ioctl(master, termios.TIOCPKT, struct.pack("i", 1))
    os.set_blocking(master, False)
    seen, words = bytearray(), list[int]()
    grew = trio.Event()

    async def take(data: bytes) -> None:
        nonlocal grew
        seen.extend(data)
        grew.set()
        grew = trio.Event()

    async def until(text: bytes) -> None:
        with trio.fail_after(20):
            while text not in seen:
                await grew.wait()

    reader = Reader(master, take, words.append)
    os.write(slave, b"before ")
    termios.tcflush(slave, termios.TCIFLUSH)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        await until(b"before")
        os.write(slave, b"behind")
        await until(b"behind")
        nursery.cancel_scope.cancel()
    os.close(slave)
    os.close(master)
    assert bytes(seen) == b"before behind"
    assert any(word & termios.TIOCPKT_FLUSHREAD for word in words)


async def test_every_byte_of_a_flood_is_read_from_a_terminal_that_tells_words_beside_it():
    said = b"".join(b"%06d %s\n" % (number, b"x" * (number % 97)) for number in range(20_000))
    master, slave = pty.openpty()
    tty.setraw(slave)
    fcntl.ioctl(master, termios.TIOCPKT, struct.pack("i", 1))
    os.set_blocking(master, False)
    seen, words = bytearray(), list[int]()

    async def take(data: bytes) -> None:
        seen.extend(data)

    def say() -> None:
        for start in range(0, len(said), 50_000):
            view = memoryview(said)[start : start + 50_000]
            while view:
                view = view[os.write(slave, view) :]
            termios.tcflush(slave, termios.TCIFLUSH)
        os.close(slave)

    reader = Reader(master, take, words.append)
    reader.expect_end()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            await trio.to_thread.run_sync(say)
    os.close(master)
    assert bytes(seen) == said
    assert any(word & termios.TIOCPKT_FLUSHREAD for word in words)


async def test_a_descriptor_that_cannot_be_read_says_why():
    read_fd, write_fd = os.pipe()

    async def take(data: bytes) -> None:
        raise AssertionError("nothing can come")

    reader = Reader(write_fd, take)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await reader.run()
    os.close(read_fd)
    os.close(write_fd)


async def test_a_flood_is_taken_in_large_pieces_and_leaves_everyone_else_many_turns():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, 1024 * 1024)
    taken: list[int] = []
    turns: list[int] = []

    async def take(data: bytes) -> None:
        taken.append(len(data))

    async def others() -> None:
        while sum(taken) < 1024 * 1024:
            turns.append(len(taken))
            await trio.lowlevel.checkpoint()

    for _ in range(256):
        os.write(write_fd, bytes(4096))
    os.close(write_fd)
    reader = Reader(read_fd, take)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        nursery.start_soon(reader.run)
    os.close(read_fd)
    assert sum(taken) == 1024 * 1024
    assert max(taken) <= READ_MAX
    assert all(turns.count(number) >= 4 for number in range(1, len(taken)))
