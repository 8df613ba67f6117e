"""A stage for each test that needs runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandboxd import logs
from tests.live.stage import Stage, open_stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path) as opened:
        yield opened


@pytest.fixture
async def blind_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """One that goes by the text alone, for programs that say a question and then read when the test wants it."""
    async with open_stage(tmp_path, asks_kernel=False) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _lines() -> None:
    """The daemon's own lines."""
    logs.configure(journal=False)
