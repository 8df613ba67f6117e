"""Programs of the person at the terminal: for a first config, and for a run without one."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from sandboxd.cli.config import first_config
from sandboxd.cli.main import main
from sandboxd.cli.programs import find_program

REPOSITORY = Path(__file__).resolve().parents[2]
REQUEST = ".aiwg/ops/adapters/sandbox-agent-runner/examples/cycle-005-request.json"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for an environment's programs: nothing is on PATH, and our Python is there."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path


def program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_beside_our_python_is_found_after_path(environment: Path) -> None:
    assert find_program("node") == ""

    beside = program(environment / "node")
    assert find_program("node") == str(beside)

    on_path = program(environment / "empty/node")
    assert find_program("node") == str(on_path)


@pytest.mark.parametrize(("node", "named"), [("", "/usr/bin/node"), ("/opt/a b/node", "/opt/a b/node")])
def test_the_first_config_names_the_node_that_is_here(node: str, named: str) -> None:
    assert tomllib.loads(first_config(node))["programs"] == {"node": named}


@pytest.mark.usefixtures("environment")
def test_a_run_without_a_config_says_which_program_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    root = str(REPOSITORY / "examples/workspace")

    assert main(["run", "--root", root, "--mode", "plan", "--request", REQUEST]) == 125

    told = capsys.readouterr().err
    assert "there is no program `node` on your PATH" in told
    assert "--config FILE" in told
