"""How does the store's file come to be opened, while its own code is still being loaded?

A thread looks through the file, which takes a quarter of a second for 100,000 tasks and needs the interpreter for none of it.
`sqlite.opened_store` makes a store of what was begun here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sandboxd.db.database import Opening, begin_opening
from sandboxd.store.files import Files
from sandboxd.store.schema import SCHEMA
from sandboxd.values import frozen


@frozen
class Begun:
    """A store that is not one yet: its path, the files beside it, and its file, which a thread opens."""

    path: Path
    files: Files
    opening: Opening


@asynccontextmanager
async def begin_store(path: Path) -> AsyncIterator[Begun]:
    """Begin to open or make the store at `path`; what nobody has taken by the end of the block is closed then."""
    files = Files(path)
    async with begin_opening(path, SCHEMA, files) as opening:
        yield Begun(path, files, opening)
