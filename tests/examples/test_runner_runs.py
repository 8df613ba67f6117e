"""Does runner.mjs report truthfully, ask before it writes, and write nothing else?"""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ptyprocess
import pytest

ADAPTER = Path(".aiwg/ops/adapters/sandbox-agent-runner")
RUNS = Path(".aiwg/ops/runs")
PATIENCE_S = 30
CONSENT = "Write the plan to .aiwg/ops/runs? [y/N]"


class Terminal:
    """A runner on a pty, and a person who waits for what it says."""

    def __init__(self, node: Path, workspace: Path, request: str) -> None:
        argv = [str(node), str(ADAPTER / "runner.mjs"), "--request", str(ADAPTER / "examples" / request)]
        env = {"AIWG_A2A_ADAPTER_MODE": "plan", "AIWG_A2A_TASK_ID": "task-1", "TERM": "xterm"}
        self._child: Any = ptyprocess.PtyProcess.spawn(argv, cwd=str(workspace), env=env)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until `text` has come since the last answer."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            if not select.select([self._child.fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{text!r} did not come; seen: {self.seen!r}")
            self.seen += os.read(self._child.fd, 65536).decode()

    def answer(self, text: str) -> None:
        self.seen = ""
        self._child.write(text.encode() + b"\r")

    def press(self, key: bytes) -> None:
        self._child.write(key)

    def wait_exit(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        try:
            while select.select([self._child.fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                got = os.read(self._child.fd, 65536)
                if not got:
                    break
                self.seen += got.decode()
        except OSError:  # the end of a pty's output comes as EIO
            pass
        code: int = self._child.wait()
        return code

    def close(self) -> None:
        self._child.close(force=True)


Start = Callable[[str], Terminal]


@pytest.fixture
def start(node: Path, workspace: Path) -> Iterator[Start]:
    started: list[Terminal] = []

    def run(request: str) -> Terminal:
        started.append(Terminal(node, workspace, request))
        return started[-1]

    yield run
    for terminal in started:
        terminal.close()


def piped(node: Path, workspace: Path, mode: str, request: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """A run without a terminal; `typed` comes down its stdin."""
    return subprocess.run(
        [node, ADAPTER / "runner.mjs", "--request", ADAPTER / "examples" / request],
        cwd=workspace,
        env={"AIWG_A2A_ADAPTER_MODE": mode},
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def assess(node: Path, workspace: Path, request: str) -> tuple[int, list[str]]:
    done = piped(node, workspace, "assess", request)
    return done.returncode, done.stdout.splitlines()


def tree(workspace: Path) -> dict[str, str]:
    files = (path for path in workspace.rglob("*") if path.is_file())
    return {str(path.relative_to(workspace)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_yes_writes_the_plan_and_nothing_else(start: Start, workspace: Path) -> None:
    before = tree(workspace)
    terminal = start("cycle-005-request.json")
    terminal.wait_for(CONSENT)
    assert tree(workspace) == before
    terminal.answer("y")

    assert terminal.wait_exit() == 0
    plan = RUNS / "M011" / "cycle-005" / "plan.json"
    assert tree(workspace).keys() - before.keys() == {str(plan)}
    written = (workspace / plan).read_bytes()
    assert f"sha256 {hashlib.sha256(written).hexdigest()}" in terminal.seen
    value = json.loads(written)
    assert (value["schema"], value["mission"], value["id"]) == ("sandbox-agent-runner/plan/1", "M011", "cycle-005")
    assert value["task_id"] == "task-1"
    request = ADAPTER / "examples" / "cycle-005-request.json"
    assert value["request"] == {"path": str(request), "sha256": before[str(request)]}


@pytest.mark.parametrize("answer", ["n", "", "No"])
def test_a_no_writes_nothing_and_is_declined(start: Start, workspace: Path, answer: str) -> None:
    before = tree(workspace)
    terminal = start("cycle-005-request.json")
    terminal.wait_for(CONSENT)
    terminal.answer(answer)

    assert terminal.wait_exit() == 3
    assert "Declined" in terminal.seen
    assert tree(workspace) == before


def test_three_answers_that_are_none_are_declined(start: Start) -> None:
    terminal = start("cycle-005-request.json")
    for _ in range(3):
        terminal.wait_for(CONSENT)
        terminal.answer("perhaps")

    assert terminal.wait_exit() == 3


@pytest.mark.parametrize(("key", "code"), [(b"\x04", 5), (b"\x03", 3)])
def test_end_of_file_and_interrupt_write_nothing(start: Start, workspace: Path, key: bytes, code: int) -> None:
    before = tree(workspace)
    terminal = start("cycle-005-request.json")
    terminal.wait_for(CONSENT)
    terminal.press(key)

    assert terminal.wait_exit() == code
    assert tree(workspace) == before


def test_questions_come_one_by_one_and_their_answers_are_in_the_plan(start: Start, workspace: Path) -> None:
    terminal = start("several-questions-request.json")
    terminal.wait_for("Shall the cycle change tests too? [Y/n]")
    terminal.answer("")
    terminal.wait_for("May it change settings.json? [y/n]")
    terminal.answer("")
    terminal.wait_for("Please answer y or n.")
    terminal.wait_for("May it change settings.json? [y/n]")
    terminal.answer("n")
    terminal.wait_for(CONSENT)
    terminal.answer("yes")

    assert terminal.wait_exit() == 0
    plan = json.loads((workspace / RUNS / "M011" / "several-questions" / "plan.json").read_text())
    assert [answer["answer"] for answer in plan["answers"]] == ["yes", "no"]


def test_a_choice_and_a_free_text_are_taken_as_typed(start: Start, workspace: Path) -> None:
    terminal = start("open-questions-request.json")
    terminal.wait_for("Where shall it begin? (docs/settings) [docs]")
    terminal.answer("settings")
    terminal.wait_for("Who reads the plan:")
    terminal.answer("Ada Löwe")
    terminal.wait_for(CONSENT)
    terminal.answer("y")

    assert terminal.wait_exit() == 0
    plan = json.loads((workspace / RUNS / "M011" / "open-questions" / "plan.json").read_text())
    assert [answer["answer"] for answer in plan["answers"]] == ["settings", "Ada Löwe"]


def test_a_second_plan_replaces_the_first_whole(start: Start, workspace: Path) -> None:
    folder = workspace / RUNS / "M011" / "cycle-005"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("old")
    terminal = start("cycle-005-request.json")
    terminal.wait_for(CONSENT)
    terminal.answer("y")

    assert terminal.wait_exit() == 0
    assert json.loads((folder / "plan.json").read_text())["id"] == "cycle-005"
    assert [path.name for path in folder.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("where", [RUNS, RUNS / "M011", RUNS / "M011" / "cycle-005"])
def test_a_symlink_on_the_way_is_never_followed(start: Start, workspace: Path, where: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (workspace / where).parent.mkdir(parents=True, exist_ok=True)
    (workspace / where).symlink_to(outside)
    terminal = start("cycle-005-request.json")
    terminal.wait_for(CONSENT)
    terminal.answer("y")

    assert terminal.wait_exit() == 4
    assert "cannot write" in terminal.seen
    assert list(outside.iterdir()) == []


def test_answers_that_come_down_a_pipe_are_no_consent(node: Path, workspace: Path) -> None:
    before = tree(workspace)
    done = piped(node, workspace, "plan", "cycle-005-request.json", typed="y\ny\n")

    assert done.returncode == 0
    assert done.stdout.endswith("Not written: there is no terminal to ask on.\n")
    assert tree(workspace) == before


def test_a_question_without_default_and_terminal_is_unanswered(node: Path, workspace: Path) -> None:
    done = piped(node, workspace, "plan", "several-questions-request.json")

    assert done.returncode == 5
    assert "`settings`" in done.stderr


def test_assess_passes_on_the_shipped_workspace_and_changes_nothing(node: Path, workspace: Path) -> None:
    before = tree(workspace)
    code, lines = assess(node, workspace, "assess-workspace-request.json")

    report = json.loads(lines[-1])
    assert (code, report["passed"], report["failed"]) == (0, 6, 0)
    assert tree(workspace) == before
    assert assess(node, workspace, "assess-workspace-request.json") == (code, lines)


def test_assess_says_what_fails_and_why(node: Path, workspace: Path) -> None:
    code, lines = assess(node, workspace, "assess-failing-request.json")

    report = json.loads(lines[-1])
    assert (code, report["passed"], report["failed"]) == (1, 1, 3)
    assert [check["id"] for check in report["checks"] if not check["passed"]] == [
        "release-page",
        "handbook-short",
        "settings-pinned",
    ]
    assert "  FAIL release-page: file-exists docs/release.md: it does not exist" in lines


def test_assess_finds_a_symlink_deep_in_the_workspace(node: Path, workspace: Path) -> None:
    (workspace / "docs" / "deep").mkdir()
    (workspace / "docs" / "deep" / "link\x1b[2J").symlink_to("/etc/passwd")
    code, lines = assess(node, workspace, "assess-workspace-request.json")

    assert code == 1
    assert any("is a symlink" in line for line in lines)
    assert "\x1b" not in "".join(lines)


def test_assess_never_reads_through_a_symlink(node: Path, workspace: Path) -> None:
    (workspace / "settings.json").rename(workspace.parent / "settings.json")
    (workspace / "settings.json").symlink_to(workspace.parent / "settings.json")
    code, lines = assess(node, workspace, "assess-workspace-request.json")

    failed = [check["id"] for check in json.loads(lines[-1])["checks"] if not check["passed"]]
    assert code == 1
    assert failed == ["settings", "settings-size", "settings-pinned", "no-links"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_fails_without_waiting(node: Path, workspace: Path, make: Callable[[Path], None]) -> None:
    (workspace / "README.md").unlink()
    make(workspace / "README.md")
    code, lines = assess(node, workspace, "assess-workspace-request.json")

    assert code == 1
    assert "  FAIL readme: file-exists README.md: it is no regular file" in lines
