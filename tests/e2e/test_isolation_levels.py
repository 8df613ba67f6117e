"""The main job at each level of isolation, from outside: it asks, is answered, completes, and says what it ran under."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd.a2a.extensions import PROMPT_FACTS, RUN_FACTS
from sandboxd.policy.model import Isolation
from sandboxd.runner.isolation.levels import Kept, resolve
from sandboxd.runner.isolation.selftest import probe_for
from tests.support.daemon import Daemon, output_of, prompt_of, state_of


@pytest.fixture(scope="module", params=["standard", "strict"])
def asked(request: pytest.FixtureRequest) -> Isolation:
    """The level that the config asks for."""
    level: Isolation = request.param
    return level


@pytest.fixture(scope="module")
def kept(asked: Isolation) -> str:
    """The level that this host keeps it as."""
    found = resolve(asked, probe_for(asked))
    if not isinstance(found, Kept):
        pytest.skip(f"NOT TESTED HERE: the main job at `{asked}`: {found.reason}")
    return found.level


@pytest.fixture(scope="module")
def confined(asked: Isolation, kept: str, tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp(f"confined-{kept}"), str(node), isolation=asked)
    daemon.start()
    yield daemon
    daemon.end()


def test_a_confined_command_asks_is_answered_and_completes(confined: Daemon, kept: str) -> None:
    task = confined.run([["print", "planning\n"], ["ask", "Proceed? [y/N] "], ["print", "went on\n"]])
    assert state_of(task) == "INPUT_REQUIRED", task
    assert prompt_of(task)["prompt"] == "Proceed? [y/N]"
    assert task["status"]["message"]["metadata"][PROMPT_FACTS]["evidence"]["reader"].startswith("node: ")

    done = confined.answer(task, "y", wait=True).json()["task"]

    assert state_of(done) == "COMPLETED"
    assert "went on" in output_of(done)
    assert done["metadata"][RUN_FACTS]["isolation"] == kept


def test_a_workspace_with_the_daemons_own_state_is_refused(kept: str, tmp_path: Path, node: Path) -> None:
    daemon = Daemon(tmp_path, str(node), isolation=kept)
    state = daemon.workspace / "state"
    daemon.config.write_text(daemon.config.read_text().replace(f'"{tmp_path / "state"}"', f'"{state}"'))
    (tmp_path / "state").symlink_to(state)
    state.mkdir()
    daemon.start()
    refused = daemon.run([["print", "x"]])
    daemon.end()

    assert state_of(refused) == "REJECTED"
    assert "files of the daemon's own" in str(refused["status"])
