"""What do the doors log while they are tested? The daemon's own lines: structlog's default shows every local variable."""

from __future__ import annotations

import pytest

from sandboxd import logs


@pytest.fixture(autouse=True)
def _lines():
    logs.configure(journal=False)
