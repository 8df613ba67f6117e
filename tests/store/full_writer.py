"""A program that writes until no file may grow any further, then is given room again; says as JSON what became of it.

Run by `test_store_full.py`: a limit on the size of files (RLIMIT_FSIZE) needs no rights and holds for a whole process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import trio

from sandboxd.store.base import StoreUnavailable
from sandboxd.store.sqlite import open_store
from tests.store.story import Story

LIMIT_BYTES = 1024 * 1024


async def main(path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with open_store(path) as store:
        stories = [await Story(store, f"task-{number}").begin() for number in range(5)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
        said: list[str] = []

        async def fill(story: Story) -> None:
            try:
                while story.seq < 1000:
                    await story.write(bytes(20_000))
            except StoreUnavailable as error:
                said.append(str(error))

        async with trio.open_nursery() as nursery:
            for story in stories:
                nursery.start_soon(fill, story)
        try:
            for _ in range(1000):  # where no large piece fits, a few small ones may
                await store.check()
        except StoreUnavailable as error:
            said.append(str(error))
        kept = [await store.view(story.view.task_id) == story.view for story in stories]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await store.check()
        for story in stories:
            await story.write(b"again")
            await story.finish()
        later = [await store.view(story.view.task_id) == story.view for story in stories]
    told = {"said": said, "kept": kept, "later": later, "seqs": [story.seq for story in stories]}
    sys.stdout.write(json.dumps(told))


trio.run(main, Path(sys.argv[1]))
