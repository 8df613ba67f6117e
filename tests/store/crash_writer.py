"""A program that appends to tasks as fast as it can and says of each append that returned: `<task> <number>`.

Run by `test_store_crash.py`, which ends it with SIGKILL at a moment of its choice.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import trio

from sandboxd.store.feed import Feed
from sandboxd.store.recovery import recover
from sandboxd.store.sqlite import open_store
from tests.store.story import NOON, Story

PRODUCERS = 10


async def main(path: Path, round_number: int) -> None:
    ids = (f"recovery-{round_number}-{number}" for number in range(10**9))
    async with open_store(path) as store:
        await recover(Feed(store), NOON, lambda: next(ids))
        os.write(1, b"ready 0\n")
        async with trio.open_nursery() as nursery:
            for number in range(PRODUCERS):
                nursery.start_soon(produce, Story(store, f"task-{round_number}-{number}"), random.Random(number))


async def produce(story: Story, chance: random.Random) -> None:
    await story.begin()
    while True:
        if chance.random() < 0.1:
            await story.answer(await story.ask(), f"answer-{story.seq}")
        else:
            await story.write(bytes([story.seq % 251]) * chance.choice((1, 100, 5000, 20_000, 70_000)))
        # One write to a pipe of less than PIPE_BUF bytes: never torn.
        os.write(1, f"{story.view.task_id} {story.seq}\n".encode())


trio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
