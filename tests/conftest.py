"""What does this machine offer the tests, and what can they not try here?

`scripts/as-tester` says where a Node is (`SANDBOXD_NODE`) and hands over a cgroup of the tests' own
(`SANDBOXD_TEST_CGROUP`). What is missing is skipped with its reason, which pytest's summary repeats.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.support.fixtures"]

# A job in the background ignores Ctrl-C, perhaps hangups, and so does whatever it starts (execve(2)): no test could end that.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

REPOSITORY = Path(__file__).resolve().parents[1]
NODE_MIN = 18

# The tests share a machine: how long an example takes says nothing about the code.
settings.register_profile("sandboxd", deadline=None, print_blob=True, database=None)
settings.load_profile("sandboxd")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the tree that is tested."""
    return REPOSITORY


@pytest.fixture(scope="session")
def source_files() -> tuple[Path, ...]:
    """Every file of the tree that is not made by a tool, relative to the root; a copy has no git to ask."""
    made = {".git", ".venv", "__pycache__", "node_modules", "dist", "build"}
    found = []
    for folder, folders, names in os.walk(REPOSITORY):
        folders[:] = [name for name in folders if name not in made and not name.endswith(("_cache", ".egg-info"))]
        folders[:] = [name for name in folders if name not in (".hypothesis", ".demo") and not name.startswith(".venv")]
        found += [Path(folder, name).relative_to(REPOSITORY) for name in names if name not in (".git", ".venv")]
    return tuple(sorted(found))


@pytest.fixture(scope="session")
def node() -> Path:
    """A real Node that the tester can run."""
    found = os.environ.get("SANDBOXD_NODE") or shutil.which("node")
    if found is None:
        pytest.skip(f"NOT TESTED HERE: no Node >= {NODE_MIN} (SANDBOXD_NODE names one)")
    major = subprocess.run([found, "-p", "parseInt(process.versions.node)"], capture_output=True, text=True, check=True)
    if int(major.stdout) < NODE_MIN:
        pytest.skip(f"NOT TESTED HERE: {found} is Node {major.stdout.strip()}, {NODE_MIN} is needed")
    return Path(found).resolve()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of `examples/workspace` that the test may change."""
    return Path(shutil.copytree(REPOSITORY / "examples" / "workspace", tmp_path / "workspace"))


@pytest.fixture(scope="session")
def test_cgroup() -> Path:
    """A cgroup v2 folder that belongs to the tester; this process is in its child `supervisor`."""
    given = os.environ.get("SANDBOXD_TEST_CGROUP")
    if not given:
        pytest.skip("NOT TESTED HERE: there is no cgroup of the tests' own (SANDBOXD_TEST_CGROUP)")
    return Path(given)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have measured, a line each (`record_property("hostile", …)`), and which real programs were answered."""
    programs: set[str] = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "hostile" and report.when == "call":
                    terminalreporter.write_line(f"{name}: {value}")
                if name == "live_program" and report.passed:
                    programs.add(str(value))
    if programs:
        terminalreporter.write_line(f"{len(programs)} real programs were asked and answered: {', '.join(sorted(programs))}")
