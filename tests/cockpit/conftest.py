"""A foreign executor, and a receiver of webhooks, for whoever asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.courier.receiver import Receiver
from tests.fakes.executor import Executor


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
