"""Which stores are tested, and how is each one opened?

A store joins the contract suite by one line in `STORES`: what opens it anew at a path, finding what it kept there before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from sandboxd.store.base import Store
from sandboxd.store.sqlite import open_store

Opener = Callable[[Path], AbstractAsyncContextManager[Store]]
STORES: dict[str, Opener] = {"sqlite": open_store}


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest) -> Opener:
    return STORES[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.sqlite"


@pytest.fixture
async def store(opener: Opener, path: Path) -> AsyncIterator[Store]:
    async with opener(path) as opened:
        yield opened
