"""How is a run's output read, with nothing lost and nothing spun on?

Raw non-blocking reads until the kernel has no more, then a wait (pty(7), pipe(7)). What a few reads bring is taken at once.
A pipe ends with an empty read. A pty master fails with EIO once nobody holds the slave, yet a living program may open
`/dev/tty` again, so reading is tried again until the run says that nothing can follow.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import trio

READ_MAX: Final = 65536  # taken at once
# A terminal gives up some 4 KiB a read, and all others wait meanwhile: by 16 at once a flood was no faster than by 4, and
# `/healthz` beside it took 2.3 ms for 1.8 (medians, while flood and daemon fill two cores).
READS: Final = 4
READ_MIN: Final = 4096
READ_SHORT: Final = 1024  # a program's line and not more of a flood: to read on only to hear of EAGAIN costs as much again
TURNS: Final = 16  # of the loop that everyone else has after as much as that
REOPEN_POLL_S: Final = 0.05  # after EIO a wait for readability returns at once, for ever: poll instead

# What is read stands here, behind one byte, until it is taken out, before anything else of the loop runs.
_SPACE: Final = memoryview(bytearray(1 + READ_MAX))
_BEGIN: Final = ctypes.addressof(ctypes.c_char.from_buffer(_SPACE))
# read(2) as `os.read`, but it keeps the interpreter: it never waits here, and beside a busy writer each of the 25,000 reads of
# 100 MB would have to get it back (measured with both cores busy: a quarter more of the loop's time, and as much longer).
_read_held: Final = ctypes.PyDLL(None, use_errno=True).read
_read_held.argtypes, _read_held.restype = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_ssize_t

_Stop = int | Literal["dry", "closed", "end"] | None  # a control byte, or why there is no more now


class Reader:
    """Reads one descriptor until its end; `take` gets every byte, in order, and may hold the reading back.

    `packet`: gets the control bytes of a terminal in packet mode.
    """

    def __init__(self, fd: int, take: Callable[[bytes], Awaitable[None]], packet: Callable[[int], None] | None = None) -> None:
        self._fd = fd
        self._take = take
        self._packet = packet
        self._over = trio.Event()
        self._done = trio.Event()
        self._waiting_since: float | None = None
        self._held_since: float | None = None
        self._held_s = 0.0  # how long `take` has held the reading back so far

    def __repr__(self) -> str:
        return f"<Reader fd={self._fd} done={self._done.is_set()}>"

    async def run(self) -> None:
        """Read until the end of the output."""
        while True:
            data, stop = self._gather()
            if data:
                self._waiting_since = None
                self._held_since = trio.current_time()
                await self._take(data)
                self._held_s, self._held_since = self._held(), None
                turns = TURNS * len(data) // READ_MAX
                for _ in range(turns if stop == "dry" else max(turns, 1)):  # a wait follows what is dry
                    await trio.lowlevel.checkpoint()
                data = b""  # not to be held until more comes
            match stop:
                case None:
                    pass
                case int():
                    if self._packet is not None:
                        self._packet(stop)
                case "dry":
                    self._waiting_since = trio.current_time()
                    await trio.lowlevel.wait_readable(self._fd)
                    self._waiting_since = None
                case "closed":  # by whoever held the terminal; somebody may open it again
                    if self._over.is_set():
                        break
                    self._waiting_since = trio.current_time()
                    with trio.move_on_after(REOPEN_POLL_S):
                        await self._over.wait()
                case "end":
                    break
        self._done.set()

    def _gather(self) -> tuple[bytes, _Stop]:
        """What is there to be read now, up to `READ_MAX`, and what came behind it."""
        size, stop, reads = 0, None, 0
        while stop is None and size <= READ_MAX - READ_MIN and reads < READS:
            got, stop = self._read(size)
            size += got
            reads += 1
            if stop is None and got < READ_SHORT:
                stop = "dry"  # if it is not, the wait is over at once
        return _SPACE[1 : 1 + size].tobytes(), stop

    def _read(self, size: int) -> tuple[int, _Stop]:
        """Read behind the `size` bytes that are in `_SPACE`; how many came, and what came behind them."""
        if self._packet is None:
            got = _read_held(self._fd, _BEGIN + 1 + size, READ_MAX - size)
            return (got, None) if got > 0 else (0, _stop(got))
        before = _SPACE[size]  # the control byte takes its place, for its data to follow on
        got = _read_held(self._fd, _BEGIN + size, 1 + READ_MAX - size)
        control, _SPACE[size] = _SPACE[size], before
        return (got - 1, control or None) if got > 0 else (0, _stop(got))

    def expect_end(self) -> None:
        """Say that nobody can open the terminal again: the next EIO is the end."""
        self._over.set()

    async def drained(self, quiet_s: float, most_s: float) -> bool:
        """Return True at the end of the output, False once somebody else plainly holds it open.

        That is: nothing has come for `quiet_s`, or it has gone on for `most_s`, time in which `take` held the reading back
        not counted.
        """
        began, held_s = trio.current_time(), self._held()
        while not self._done.is_set():
            now = trio.current_time()
            idle_s = now - self._waiting_since if self._waiting_since is not None else 0.0
            left_s = most_s - (now - began - (self._held() - held_s))
            if idle_s >= quiet_s or left_s <= 0:
                return False
            with trio.move_on_after(max(min(quiet_s - idle_s, left_s), 0.01)):
                await self._done.wait()
        return True

    def _held(self) -> float:
        return self._held_s + (trio.current_time() - self._held_since if self._held_since is not None else 0.0)


def _stop(got: int) -> Literal["dry", "closed", "end"]:
    """Why nothing came. Raises `OSError`."""
    if got == 0:
        return "end"
    match ctypes.get_errno():
        case errno.EAGAIN | errno.EINTR:  # after a signal it is tried again as well
            return "dry"
        case errno.EIO:
            return "closed"
        case number:
            raise OSError(number, os.strerror(number))
