"""Does a recording hold what a bug report needs, and nothing that was typed?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxd.cli.main import main
from sandboxd.runner import witness
from tests.support.programs import begun

REPOSITORY = Path(__file__).parents[2]
ASKS = "import getpass; getpass.getpass('Token: '); input('Sure? [y/N] '); raise SystemExit(3)"


def record(folder: Path, *options: str, typed: str) -> tuple[int, list[Any], dict[str, Any]]:
    argv = [sys.executable, "-m", "sandboxd", "record", "-o", "r.cast", *options, "--", sys.executable, "-c", ASKS]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with begun(argv, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        os.set_blocking(running.stdout.fileno(), True)
        for mark, line in ((b"Token: ", typed), (b"Sure? [y/N] ", "y")):
            seen = b""
            while mark not in seen:
                seen += os.read(running.stdout.fileno(), 4096)
            running.stdin.write(f"{line}\n".encode())
            running.stdin.flush()
        code = running.wait(timeout=30)
    lines = [json.loads(line) for line in (folder / "r.cast").read_text().splitlines()]
    return code, lines, json.loads((folder / "r.json").read_text())


def test_a_recording_has_the_output_and_the_kernel_s_word_and_not_what_was_typed(tmp_path: Path) -> None:
    code, lines, truth = record(tmp_path, typed="hunter22")

    assert code == truth["exit"] == 3
    assert (lines[0]["version"], lines[0]["width"], lines[0]["height"]) == (2, 80, 24)
    output = "".join(text for _, kind, text in lines[1:] if kind == "o")
    assert output.startswith("Token: ")
    assert [text for _, kind, text in lines[1:] if kind == "i"] == ["*\n", "*\n"]
    assert "hunter22" not in (tmp_path / "r.cast").read_text() + (tmp_path / "r.json").read_text()
    assert [1, 0, 1] in [modes for _, *modes in truth["tty_timeline"]]
    if not witness.availability():
        assert 1 in [reading for _, reading in truth["blocked_timeline"]]
    assert (tmp_path / "r.cast").stat().st_mode & 0o777 == 0o600


def test_what_is_typed_is_written_down_where_that_is_asked_for(tmp_path: Path) -> None:
    _, lines, _ = record(tmp_path, "--input", typed="hunter22")

    assert [text for _, kind, text in lines[1:] if kind == "i"] == ["hunter22\n", "y\n"]


def test_a_recording_can_be_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, typed="hunter22")

    assert main(["explain", str(tmp_path / "r.cast"), "--json"]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert set(json.loads(line)) == {"t", "event", "line", "kind", "answerable", "secret", "rule", "evidence"}


def test_nothing_is_written_over_and_no_program_is_made_up(tmp_path: Path) -> None:
    (tmp_path / "r.cast").write_text("mine")

    assert main(["record", "-o", str(tmp_path / "r.cast"), "--", "true"]) == 1
    assert main(["record", "-o", str(tmp_path / "s.cast"), "--", "no-such-program-here"]) == 1
    assert main(["record", "-o", str(tmp_path / "s.txt"), "--", "true"]) == 1
    assert (tmp_path / "r.cast").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.cast"]
