"""What does `doctor` say of this host, and with which code?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandboxd.cli.main import main
from sandboxd.policy.decide import LEVELS
from sandboxd.runner.isolation.levels import LAYERS

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIG = """
state_dir = "state"

[programs]
node = "/usr/bin/true"

[[instance]]
id = "default"
root = "."
policies = ["mine.toml"]

[isolation]
bubblewrap = "{bubblewrap}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    policy = (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text()
    return write(tmp_path, policy.replace("[isolation]", '[isolation]\nlevel = "strict"'), bubblewrap="/nonexistent/bwrap")


def write(folder: Path, policy: str, *, bubblewrap: str) -> Path:
    (folder / "mine.toml").write_text(policy)
    (folder / "mine.toml").chmod(0o644)
    (folder / "sandboxd.toml").write_text(CONFIG.format(bubblewrap=bubblewrap))
    return folder / "sandboxd.toml"


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SANDBOXD_CONFIG", raising=False)

    def run(*words: str) -> tuple[int, dict]:
        code = main(["doctor", "--json", *words])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_every_layer_and_level_is_told(doctor):
    code, told = doctor("--level", "none")

    assert code == 0
    assert [layer["layer"] for layer in told["layers"]] == list(LAYERS)
    assert list(told["levels"]) == list(LEVELS)
    assert all(layer["works"] or layer["reason"] for layer in told["layers"])


def test_a_policy_that_asks_for_more_than_the_host_has_is_refused_with_what_helps(doctor, config: Path):
    code, told = doctor("--config", str(config))

    verdict = next(verdict for verdict in told["asked"] if verdict["who"] == "default: mine")
    assert code == 1
    assert not told["ok"]
    assert (verdict["asks"], verdict["gets"]) == ("strict", None)
    assert "there is no `/nonexistent/bwrap`" in verdict["why"]
    assert "What helps" in verdict["why"]


def test_a_policy_that_does_not_load_is_told(doctor, tmp_path: Path):
    config = write(tmp_path, "format = 1\n", bubblewrap="/usr/bin/bwrap")

    code, told = doctor("--config", str(config))

    assert code == 1
    assert "cannot load" in told["asked"][-1]["why"]


def test_limits_that_the_host_does_not_keep_are_told_with_their_policy(doctor, tmp_path: Path):
    config = write(tmp_path, (REPOSITORY / "policies/sandbox-agent-runner.toml").read_text(), bubblewrap="/usr/bin/bwrap")

    code, told = doctor("--config", str(config))

    cgroup = next(layer for layer in told["layers"] if layer["layer"] == "cgroup")
    notes = " ".join(told["asked"][-1]["notes"])
    assert code == 0
    assert ("memory" in cgroup["controllers"]) == ("memory" not in notes)


def test_in_a_pipe_each_line_begins_with_its_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SANDBOXD_CONFIG", raising=False)

    main(["doctor", "--level", "none"])

    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {line[0] for line in lines} == {"layer", "level", "who", "a task"}
    assert all(len(line) == 6 for line in lines if line[0] == "a task")
