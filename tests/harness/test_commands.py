"""Do the commands that the documents name exist, and do the scripts parse?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "Makefile", "docs/conformance.md")
SCRIPTS = sorted([*(REPOSITORY / "scripts").iterdir(), *(REPOSITORY / "examples" / "clients").glob("*.sh")])
_WORD = re.compile(r"[a-z][a-z0-9-]*")


def shown(pattern: str) -> list[str]:
    """What follows the pattern at the beginning of an indented line, in any document."""
    text = "\n".join((REPOSITORY / document).read_text() for document in DOCUMENTS)
    return sorted(set(re.findall(rf"^(?:#  |   ) +{pattern}(.*)", text, re.MULTILINE)))


def command_of(line: str) -> tuple[str, ...]:
    """The words of a command line before its first option or file."""
    words = []
    for word in line.split():
        if not _WORD.fullmatch(word):
            break
        words.append(word)
    return tuple(words)


@pytest.mark.parametrize("target", sorted({command_of(line)[0] for line in shown("make ")}))
def test_a_target_that_is_named_is_in_the_makefile(target: str) -> None:
    assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", sorted({command_of(line) for line in shown(r"\.venv/bin/sandboxd ")}), ids=" ".join)
def test_a_command_that_is_named_exists(command: tuple[str, ...]) -> None:
    argv = [sys.executable, "-m", "sandboxd", *command, "--help"]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert f"sandboxd {' '.join(command)}" in done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_parses(script: Path) -> None:
    done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(script, os.X_OK) or script.name == "lib.sh"


def test_the_tests_run_in_the_cgroup_that_they_were_given(test_cgroup: Path) -> None:
    assert str(os.getpid()) in (test_cgroup / "supervisor" / "cgroup.procs").read_text().split()
    assert os.access(test_cgroup / "cgroup.procs", os.W_OK)


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_what_a_command_left_is_ended_though_nobody_can_be_told(test_cgroup: Path, is_terminal: bool) -> None:
    reading, writing = os.openpty() if is_terminal else os.pipe()
    os.close(reading)
    try:
        argv = [str(REPOSITORY / "scripts" / "as-tester"), "sh", "-c", "sleep 60 >/dev/null 2>&1 &"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, timeout=60, check=False)
    finally:
        os.close(writing)

    assert done.returncode == 0
    assert list((test_cgroup / "supervisor").glob("sandboxd-test-*")) == []
