"""How is the file read without holding up the writer or the event loop?

A few connections of their own, each used by one worker thread at a time. Every read is one transaction, so its statements see
the same moment; a read that begins after a write returned sees that write.
"""

from __future__ import annotations

import sqlite3
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from sandboxd.db.connection import DatabaseUnavailable, is_outage, why

T = TypeVar("T")


class Readers:
    """Connections for reading; a caller waits while all are in use."""

    def __init__(self, connections: Sequence[sqlite3.Connection]) -> None:
        self._idle = deque(connections)
        self._limiter = trio.CapacityLimiter(len(connections))
        self._is_closed = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns; `DatabaseUnavailable` when the file cannot be read."""
        if self._is_closed:
            raise DatabaseUnavailable("it is closed")
        return await trio.to_thread.run_sync(self._run, work, limiter=self._limiter)

    async def stop(self) -> None:
        """Wait for the reads that were asked for, then close the connections."""
        if self._is_closed:
            return
        self._is_closed = True
        for _ in range(int(self._limiter.total_tokens)):
            await self._limiter.acquire_on_behalf_of(object())  # served in order, so behind every read before us
        while self._idle:
            self._idle.pop().close()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._idle.pop()
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            except Exception as error:
                # A cursor in those frames that was not read to its end would hold this moment fast for the reads that follow.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            if is_outage(error):
                raise DatabaseUnavailable(why(error)) from error
            raise
        finally:
            self._idle.append(connection)
