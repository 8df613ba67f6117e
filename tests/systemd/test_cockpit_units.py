"""Are the units of a cockpit valid, as closed as was promised, and made for its config?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxd.errors import LoadError
from sandboxd.service import cockpit_units
from sandboxd.service.cockpit_units import cockpit_files, optional_cockpit_files
from sandboxd.service.install import drift, install
from sandboxd.service.units import UNITS

EXPOSURE = 15  # tenths: 1.5
CONFIG = """
state-dir = "/var/lib/sandboxd-cockpit"

[web]
tcp = "127.0.0.1:8770"
unix = "/run/sandboxd-cockpit/cockpit.sock"

[[host]]
name = "here"
url = "http://127.0.0.1:8765"

[[person]]
name = "alice"
token-file = "/var/lib/sandboxd-cockpit/alice.token"
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cockpit_units, "HIDDEN", ("/home", "/root", "/run/user"))  # the tests' own folders are below /tmp
    monkeypatch.setattr(sys, "prefix", "/opt/sandboxd")
    file = tmp_path / "cockpit.toml"
    file.write_text(CONFIG)
    return file


def texts(source: Path) -> dict[str, str]:
    return {str(file.path.relative_to(UNITS)): file.text for file in cockpit_files(source) if UNITS in file.path.parents}


def test_its_exposure_is_as_low_as_its_network_lets_it(source: Path, tmp_path: Path, analyze: Callable) -> None:
    root = tmp_path / "root"
    install(cockpit_files(source), root)
    argv = ["security", "--offline=yes", f"--threshold={EXPOSURE}", "--no-pager", "./sandboxd-cockpit.service"]

    done = analyze(root, *argv)

    assert done.returncode == 0, done.stdout


def test_systemd_finds_nothing_wrong_with_the_units(
    source: Path, tmp_path: Path, analyze: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cockpit_units, "command", lambda: Path("/bin/true"))  # it looks whether the command is there
    root = tmp_path / "root"
    install(cockpit_files(source), root)

    done = analyze(root, "verify", "./sandboxd-cockpit.service", "./sandboxd-cockpit.socket")

    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_drop_ins_hold_what_the_config_says(source: Path) -> None:
    found = texts(source)
    service, doors = (found[f"sandboxd-cockpit.{kind}.d/10-config.conf"].splitlines() for kind in ("service", "socket"))

    run = f"/opt/sandboxd/bin/sandboxd cockpit --config {source}"
    assert f"ExecStart={run}" in service
    assert f"ExecReload={run} --check" in service
    assert "Requires=sandboxd-cockpit.socket" in service
    assert doors[-2:] == ["ListenStream=/run/sandboxd-cockpit/cockpit.sock", "ListenStream=127.0.0.1:8770"]


def test_local_users_whom_the_config_names_can_reach_the_socket(source: Path) -> None:
    source.write_text(CONFIG + "uid = 1000\n")

    assert texts(source)["sandboxd-cockpit.socket.d/10-config.conf"].splitlines()[-1] == "SocketMode=0666"


def test_a_cockpit_without_doors_has_no_sockets_and_those_that_were_there_go(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    install(cockpit_files(source), root)
    source.write_text(CONFIG.replace("[web]", "").replace('tcp = "127.0.0.1:8770"', "").replace("unix = ", "# "))
    files = cockpit_files(source)

    told = {one.path.name: one.why for one in drift(files, root, optional_cockpit_files())}

    assert "Requires=" not in texts(source)["sandboxd-cockpit.service.d/10-config.conf"]
    assert told["sandboxd-cockpit.socket"] == "is not needed by the config"
    install(files, root, optional_cockpit_files())
    assert drift(files, root, optional_cockpit_files()) == []


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"127.0.0.1:8770"', '"127.0.0.1:0"', "web.tcp"),
        ('"127.0.0.1:8770"', "8770", "web"),
        ("/run/sandboxd-cockpit/cockpit.sock", "/srv/cockpit.sock", "web.unix"),
        ("/var/lib/sandboxd-cockpit/alice.token", "/etc/alice.token", "person.1.token-file"),
    ],
)
def test_what_would_not_work_in_the_unit_is_refused_by_name(source: Path, old: str, new: str, field: str) -> None:
    source.write_text(CONFIG.replace(old, new))

    with pytest.raises(LoadError) as refused:
        cockpit_files(source)

    assert [problem.field for problem in refused.value.problems] == [field]
