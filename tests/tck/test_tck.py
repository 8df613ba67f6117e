"""Does the public A2A kit find nothing wrong, whichever of its capabilities the agent has?

The kit (a2aproject/a2a-tck) is no package: `scripts/test-tck` says what it needs. Branch 1.0-dev is SANDBOXD_TCK, branch 0.3.x
SANDBOXD_TCK03. Each test starts a daemon in one of its profiles, lets the kit loose on it, and prints what came of that.
"""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.support.daemon import Daemon

KIT_S = 1200  # some 70 s where nothing else runs
CAPABILITIES_OFF = (
    "not_supported_jsonrpc or not_supported_rest or push_not_supported_returns or unsupported_operation"
    " or push_notification_not_supported or extended_card_not_supported"
)


@attrs.frozen
class Found:
    """What came of the kit's tests, by outcome; gRPC's are left out, which this agent does not speak."""

    counts: Counter[str]
    wrong: list[str]


@pytest.fixture
def playing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Daemon]]:
    """Start a daemon in one of the kit's profiles."""
    made: list[Daemon] = []

    def play(profile: str, *, card: str = "") -> Daemon:
        daemon = Daemon(tmp_path, "/usr/bin/true", extra=f'[tck]\nprofile = "{profile}"')
        daemon.config.write_text((f'card = "{card}"\n' if card else "") + daemon.config.read_text())
        daemon.start()
        made.append(daemon)
        return daemon

    yield play
    for daemon in made:
        daemon.end()


def kit(variable: str) -> Path:
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"NOT TESTED HERE: the public A2A kit ({variable} names no folder of it; see scripts/test-tck)")
    return Path(named)


def run(folder: Path, into: Path, *command: str) -> Found:
    """Run the kit and read its report."""
    report = into / "junit.xml"
    argv = [str(folder / ".venv/bin/python"), "-m", "pytest", *command, f"--junitxml={report}", "-p", "no:cacheprovider", "-q"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(into), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=KIT_S, check=False)
    assert report.exists(), done.stdout + done.stderr
    counts: Counter[str] = Counter()
    wrong = []
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if "grpc" in name.lower():
            continue
        outcome = outcome_of(case)
        counts[outcome] += 1
        if outcome not in ("passed", "skipped"):
            wrong.append(f"{outcome}: {name}")
    return Found(counts, wrong)


def outcome_of(case: ET.Element) -> str:
    for kind in ("failure", "error"):
        if case.find(kind) is not None:
            return kind
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"


def run_10(daemon: Daemon, only: str = "") -> Found:
    folder = kit("SANDBOXD_TCK")
    transports = "--transport=jsonrpc,http_json"
    where = [f"--sut-host={daemon.url}", "--webhook-host=127.0.0.1", f"--compatibility-report={daemon.folder / 'kit'}"]
    selected = ["-k", f"({only}) and not grpc and not Grpc"] if only else []
    return run(folder, daemon.folder, "tests/compatibility/", *where, transports, *selected)


def tell(capsys: pytest.CaptureFixture[str], what: str, found: Found) -> None:
    with capsys.disabled():
        print(f"\n{what}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.counts.items())))  # noqa: T201 - the figures are what it is run for


def test_the_kit_of_10_finds_nothing_wrong(playing: Callable[..., Daemon], capsys: pytest.CaptureFixture[str]) -> None:
    kit("SANDBOXD_TCK")
    found = run_10(playing("full"))
    tell(capsys, "kit 1.0, full", found)

    assert found.wrong == []
    assert found.counts["passed"] >= 180


def test_the_kit_of_10_finds_nothing_wrong_where_capabilities_are_off(
    playing: Callable[..., Daemon], capsys: pytest.CaptureFixture[str]
) -> None:
    kit("SANDBOXD_TCK")
    found = run_10(playing("caps-off"), CAPABILITIES_OFF)
    tell(capsys, "kit 1.0, capabilities off", found)

    assert found.wrong == []
    assert found.counts["passed"] >= 8


def test_the_kit_of_10_finds_nothing_wrong_where_an_extension_is_required(
    playing: Callable[..., Daemon], capsys: pytest.CaptureFixture[str]
) -> None:
    kit("SANDBOXD_TCK")
    found = run_10(playing("required-extension"), "CapabilityExtensionRequired")
    tell(capsys, "kit 1.0, required extension", found)

    assert found.wrong == []
    assert found.counts["passed"] >= 2


def test_the_kit_of_03_finds_nothing_wrong_with_what_is_mandatory(
    playing: Callable[..., Daemon], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kit("SANDBOXD_TCK03")
    daemon = playing("full", card="merged")
    marked = ["-m", "mandatory_jsonrpc or mandatory_protocol"]  # as its own run_tck.py has it
    where = [f"--sut-url={daemon.url}", "--test-scope=all", "--transports=jsonrpc"]
    found = run(folder, daemon.folder, "tests/mandatory/", *where, *marked)
    tell(capsys, "kit 0.3, mandatory, JSON-RPC", found)

    assert found.wrong == []
    assert found.counts["passed"] >= 32
