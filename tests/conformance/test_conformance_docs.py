"""Do the commands of docs/conformance.md run as they stand there?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sandboxd.cli.main import main
from sandboxd.conformance.run import known_ids
from tests.conformance.fake_doors import serving
from tests.conformance.fake_executor import FOLDER

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text()
COMMANDS = re.findall(r"^    \.venv/bin/sandboxd (conformance .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").write_text("secret\n")
    with serving(doors=("rest", "rpc10")) as url:
        here = command.replace("http://127.0.0.1:8765", url)
        here = here.replace(".aiwg/ops/runs/mine.json", f"{FOLDER}/examples/cycle-005-request.json")

        assert main(shlex.split(here)) == 0


def test_the_page_names_every_scenario() -> None:
    ranges = re.findall(r"`([A-Z-]+?)-?(\d+)`(?: … `[A-Z-]+?-?(\d+)`)?", PAGE)
    named = {f"{name}-{number}" for name, first, last in ranges for number in range(int(first), int(last or first) + 1)}

    assert set(known_ids()) <= named
