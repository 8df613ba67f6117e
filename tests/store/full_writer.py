"""A program that writes until no file may grow any further, then is given room again; says as JSON what became of it.

Run by `test_store_full.py`: a limit on the size of files (RLIMIT_FSIZE) needs no rights and holds for a whole process. With the
word `tmpfs` the store's folder is a file system that fills up, in namespaces that the test made.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import trio

from sandboxd.store.base import StoreUnavailable
from sandboxd.store.sqlite import open_store
from tests.store.story import Story

LIMIT_BYTES = 1024 * 1024


def fill_up(folder: Path, *, is_tmpfs: bool) -> None:
    if is_tmpfs:
        (folder / "ballast").write_bytes(bytes(2 * LIMIT_BYTES))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def make_room(folder: Path, *, is_tmpfs: bool) -> None:
    if is_tmpfs:
        (folder / "ballast").unlink()
    else:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


async def main(path: Path, *, is_tmpfs: bool) -> None:
    async with open_store(path) as store:
        stories = [await Story(store, f"task-{number}").begin() for number in range(5)]
        fill_up(path.parent, is_tmpfs=is_tmpfs)
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
        make_room(path.parent, is_tmpfs=is_tmpfs)
        await store.check()
        for story in stories:
            await story.write(b"again")
            await story.finish()
        later = [await store.view(story.view.task_id) == story.view for story in stories]
    async with open_store(path) as store:
        views = [await store.view(story.view.task_id) for story in stories]
    reopened = [view == story.view for view, story in zip(views, stories, strict=True)]
    told = {"said": said, "kept": kept, "later": later, "reopened": reopened}
    sys.stdout.write(json.dumps(told))


if "tmpfs" in sys.argv[2:]:
    place = Path(sys.argv[1]).parent
    place.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,size={4 * LIMIT_BYTES}", "none", str(place)], check=True)
trio.run(partial(main, Path(sys.argv[1]), is_tmpfs="tmpfs" in sys.argv[2:]))
