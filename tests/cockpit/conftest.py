"""A foreign executor, a receiver of webhooks, and a cockpit that is an agent with its caller, for whoever asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cockpit.caller import WORDS, Caller
from tests.courier.receiver import Receiver
from tests.fakes.executor import Executor
from tests.support.cockpit import Cockpit
from tests.support.daemon import Daemon


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def cockpit(tmp_path: Path, shared: Daemon) -> Iterator[Cockpit]:
    made = Cockpit(tmp_path / "cockpit", {"here": (shared.url, shared.token)}, more=WORDS)
    made.start()
    yield made
    made.end()


@pytest.fixture(params=["rest", "jsonrpc"])
def caller(request: pytest.FixtureRequest, cockpit: Cockpit) -> Iterator[Caller]:
    with Caller(cockpit, rpc=request.param == "jsonrpc") as made:
        yield made
