"""Are the units valid, as closed as was promised, and made for this machine's config?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from sandboxd.config import Config, load_config
from sandboxd.errors import LoadError
from sandboxd.service import units
from sandboxd.service.install import drift, install
from sandboxd.service.units import UNITS, unit_files

EXPOSURE = 6  # tenths: 0.6
EXPOSURE_BUBBLEWRAP = 16

CONFIG = """
state_dir = "/var/lib/sandboxd"

[listen]
unix = "/run/sandboxd/sandboxd.sock"
tcp = "127.0.0.1:8765"

[auth]
tokens = {{ cli = "$CREDENTIALS_DIRECTORY/cli" }}

[programs]
node = "/usr/bin/node"

[[instance]]
id = "main"
root = "{root}"
policies = ["{policy}"]

[push]
courier = "unit"
"""


@pytest.fixture
def config(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    # The tests' own folders are below /tmp, of which a unit sees nothing.
    monkeypatch.setattr(units, "HIDDEN", ("/home", "/root", "/run/user"))
    monkeypatch.setattr(sys, "prefix", "/opt/sandboxd")
    root = tmp_path / "work space"
    (root / ".aiwg/ops/runs").mkdir(parents=True)
    file = tmp_path / "sandboxd.toml"
    file.write_text(CONFIG.format(root=root, policy=repository / "policies/sandbox-agent-runner.toml"))
    return load_config(file)


def texts(config: Config, *, bubblewrap: bool = False) -> dict[str, str]:
    return {
        str(file.path.relative_to(UNITS)): file.text
        for file in unit_files(config, bubblewrap=bubblewrap)
        if UNITS in file.path.parents
    }


def installed(config: Config, root: Path, *, bubblewrap: bool = False) -> Path:
    install(unit_files(config, bubblewrap=bubblewrap), root)
    return root


@pytest.mark.parametrize(("bubblewrap", "threshold"), [(False, EXPOSURE), (True, EXPOSURE_BUBBLEWRAP)])
def test_the_daemons_exposure_is_as_promised(
    config: Config, tmp_path: Path, analyze: Callable, bubblewrap: bool, threshold: int
) -> None:
    root = installed(config, tmp_path / "root", bubblewrap=bubblewrap)

    done = analyze(root, "security", "--offline=yes", f"--threshold={threshold}", "--no-pager", "./sandboxd.service")

    assert done.returncode == 0, done.stdout


def test_the_couriers_exposure_is_as_low_as_its_network_lets_it(config: Config, tmp_path: Path, analyze: Callable) -> None:
    root = installed(config, tmp_path / "root")

    done = analyze(root, "security", "--offline=yes", "--threshold=13", "--no-pager", "./sandboxd-courier.service")

    assert done.returncode == 0, done.stdout


def test_systemd_finds_nothing_wrong_with_the_units(
    config: Config, tmp_path: Path, analyze: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "command", lambda: Path("/bin/true"))  # it looks whether the command is there
    root = installed(config, tmp_path / "root", bubblewrap=True)
    names = sorted(path.name for path in (root / UNITS).iterdir() if path.is_file())

    done = analyze(root, "verify", *(f"./{name}" for name in names))

    assert len(names) == 5
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_drop_in_holds_what_the_config_needs(config: Config, tmp_path: Path) -> None:
    drop_in = texts(config)["sandboxd.service.d/10-config.conf"].splitlines()
    runs = tmp_path / "work space/.aiwg/ops/runs"

    assert f"ExecStart=/opt/sandboxd/bin/sandboxd serve --config {config.source}" in drop_in
    assert f'ReadWritePaths="{runs}"' in drop_in
    assert f'NoExecPaths="{runs}"' in drop_in
    assert "ExecPaths=/opt/sandboxd" in drop_in
    assert "LoadCredential=cli:/etc/sandboxd/credentials/cli" in drop_in
    assert "Requires=sandboxd-tcp.socket sandboxd-courier.socket" in drop_in


def test_only_what_the_config_has_gets_a_socket(config: Config) -> None:
    plain = attrs.evolve(
        config, listen=attrs.evolve(config.listen, tcp=None), push=attrs.evolve(config.push, enabled=False), tokens={}
    )

    assert [name for name in texts(plain) if name.endswith(".socket")] == ["sandboxd.socket"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda config: attrs.evolve(config, push=attrs.evolve(config.push, courier="child")), "push.courier"),
        (lambda config: attrs.evolve(config, state_dir=Path("/srv/state")), "state_dir"),
        (lambda config: attrs.evolve(config, listen=attrs.evolve(config.listen, unix=None)), "listen.unix"),
        (lambda config: attrs.evolve(config, programs={"node": "/home/me/node"}), "programs.node"),
    ],
)
def test_what_would_not_work_in_the_unit_is_refused_by_name(
    config: Config, change: Callable[[Config], Config], field: str
) -> None:
    with pytest.raises(LoadError) as refused:
        unit_files(change(config), bubblewrap=False)

    assert [problem.field for problem in refused.value.problems] == [field]


def test_a_folder_that_tasks_may_write_has_to_be_there(config: Config, tmp_path: Path) -> None:
    (tmp_path / "work space/.aiwg/ops/runs").rmdir()

    with pytest.raises(LoadError, match="is no folder"):
        unit_files(config, bubblewrap=False)


@pytest.mark.parametrize(
    ("level", "abi", "needed"), [("none", 7, False), ("standard", 7, False), ("standard", 2, True), ("strict", 7, True)]
)
def test_bubblewrap_is_let_in_where_a_level_needs_it(
    config: Config, monkeypatch: pytest.MonkeyPatch, level: Any, abi: int, needed: bool
) -> None:
    monkeypatch.setattr(units, "_landlock_abi", lambda: abi)

    assert units.needs_bubblewrap(attrs.evolve(config, isolation=attrs.evolve(config.isolation, level=level))) is needed


def test_a_second_installation_changes_nothing_and_drift_is_told(config: Config, tmp_path: Path) -> None:
    root = tmp_path / "root"
    files = unit_files(config, bubblewrap=False)
    assert install(files, root)
    assert (install(files, root), drift(files, root)) == ([], [])
    (root / UNITS / "sandboxd.socket").unlink()
    (root / UNITS / "sandboxd.service").write_text("[Service]\nExecStart=/bin/true\n")
    plain = unit_files(attrs.evolve(config, listen=attrs.evolve(config.listen, tcp=None)), bubblewrap=False)

    told = {str(one.path.relative_to(root / UNITS)): one.why for one in drift(plain, root)}

    assert told["sandboxd.socket"] == "is missing"
    assert told["sandboxd.service"] == "is for another config or another sandboxd"
    assert told["sandboxd-tcp.socket"] == "is not needed by the config"
    install(plain, root)
    assert drift(plain, root) == []


def command(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sandboxd", *argv], capture_output=True, text=True, timeout=120, check=False)


def test_the_command_says_why_a_config_cannot_be_a_service(config: Config, tmp_path: Path) -> None:
    done = command(["install-units", "--root", str(tmp_path), "--config", str(config.source)])

    assert done.returncode == 1
    assert "of which the unit sees nothing" in done.stderr
    assert not (tmp_path / "etc").exists()
