"""What do the doors log while they are tested? What the daemon logs."""

from __future__ import annotations

import pytest

from sandboxd import logs


@pytest.fixture(autouse=True)
def _lines():
    logs.configure(journal=False)
