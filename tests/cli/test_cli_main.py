"""How do commands begin and end?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sandboxd.cli.exits import Exit
from sandboxd.cli.groups import Group
from sandboxd.cli.main import COMMANDS, cli, main

REPOSITORY = Path(__file__).resolve().parents[2]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    context = click.Context(group)
    found: list[tuple[str, ...]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


EVERY = commands(cli)
SPEAKS_BY_ITS_LOG = ("serve", "courier", "cockpit", "completion")
SHOWS_A_TERMINAL = ("attach",)  # as JSON that is `tasks logs --follow --json`


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_has_help_with_one_sentence_first(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == 0

    told = capsys.readouterr().out
    assert f"Usage: sandboxd {' '.join(path)}" in told
    assert "\b" not in told  # click's mark for lines to be left alone, which holds at the start of a paragraph


@pytest.mark.parametrize("path", [path for path in EVERY if path[0] not in SPEAKS_BY_ITS_LOG + SHOWS_A_TERMINAL], ids=" ".join)
def test_every_command_can_print_json(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    main([*path, "--help"])

    printed = capsys.readouterr().out
    assert "--json" in printed or path == ("config", "init")
    assert path != ("answer",) or "--output" in printed


def test_help_imports_no_command() -> None:
    code = "import sys; from sandboxd.cli.main import main; main(['--help']); print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)

    assert all(name in ran.stdout for name in COMMANDS)
    assert not {"trio", "httpx", "jsonschema", "quart"} & set(ran.stdout.split())


@pytest.mark.parametrize(
    ("args", "near"),
    [(["promts"], "`prompts`"), (["tasks", "lst"], "`list`"), (["config", "innit"], "`init`"), (["chek", "config"], "`check`")],
)
def test_a_mistyped_command_is_answered_with_the_nearest(
    args: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2

    assert f"did you mean {near}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "code"), [(["nonsense"], 2), (["tasks", "--nope"], 2), (["run"], 125), (["run", "--mode", "x"], 125), ([], 2)]
)
def test_wrong_usage_has_its_code(args: list[str], code: int) -> None:
    assert main(args) == code


def test_errors_say_what_why_and_what_next(capsys: pytest.CaptureFixture[str]) -> None:
    main(["tasks", "list", "--limit", "0"])

    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("error: cannot run `sandboxd tasks list`: invalid value for '--limit'")
    assert told[1] == "hint: see `sandboxd tasks list --help`"


@pytest.mark.parametrize("args", [[], ["config"], ["card"]], ids=" ".join)
def test_a_group_alone_prints_its_help_in_lines(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2

    told = capsys.readouterr().err
    assert told.startswith(f"Usage: {' '.join(['sandboxd', *args])}")
    assert "\nCommands:\n" in told
    assert "\b" not in told


def test_a_missing_choice_is_told_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion"]) == 2

    assert "choose from: bash, zsh, fish" in capsys.readouterr().err.lower()


def test_hostile_arguments_are_shown_as_symbols(capsys: pytest.CaptureFixture[str]) -> None:
    main(["\x1b[2J\u202e"])

    assert "no command `␛[2J\\u202e`" in capsys.readouterr().err


def test_yes_is_answered_with_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--mode", "plan", "--request", "x", "--yes"]) == 125

    assert "--answer 'PATTERN=TEXT'" in capsys.readouterr().err


def test_the_table_of_exit_codes_is_the_documented_one() -> None:
    assert {code.name: code.value for code in Exit} == {
        "DONE": 0,
        "OTHER": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "NOT_ALLOWED": 4,
        "CONFLICT": 5,
        "INVALID_ANSWER": 6,
        "EXPIRED": 7,
        "PENDING": 8,
        "UNREACHABLE": 9,
        "RUN_UNANSWERED": 123,
        "RUN_TIMEOUT": 124,
        "RUN_REFUSED": 125,
        "INTERRUPTED": 130,
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0

    assert "_SANDBOXD_COMPLETE" in capsys.readouterr().out


def test_a_reader_that_goes_away_ends_it_without_a_word() -> None:
    argv = [sys.executable, "-m", "sandboxd", "config", "init"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writing)

    assert (ran.returncode, ran.stderr) == (1, "")


def test_a_group_without_a_usual_verb_shows_its_help() -> None:
    assert isinstance(cli, Group)
    assert main(["config"]) == 2


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out.startswith("sandboxd, version ")


def test_config_init_prints_a_file_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "init"])
    file = tmp_path / "sandboxd.toml"
    file.write_text(capsys.readouterr().out)

    assert main(["config", "show", "--config", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "sandboxd.config/1"
    assert shown["config"]["instance"][0]["id"]


def test_config_show_prints_a_file_that_means_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text('state_dir = "state"\n[[instance]]\nid = "a"\nroot = "root"\npolicies = []\n')
    main(["config", "show", "--config", str(first)])
    second.write_text(capsys.readouterr().out)

    main(["config", "show", "--config", str(second)])

    assert capsys.readouterr().out == second.read_text()


def test_a_config_with_problems_lists_them_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sandboxd.toml"
    file.write_text('stat_dir = "x"\n[limits]\nmax_task = 3\n')

    assert main(["config", "show", "--config", str(file)]) == 1

    told = capsys.readouterr().err
    assert "stat_dir" in told
    assert "max_task" in told


def test_a_config_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert main(["config", "show", "--config", str(tmp_path / "none.toml")]) == 3


def test_serve_says_which_folder_it_cannot_make(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = tmp_path / "sandboxd.toml"
    config.write_text(
        'state_dir = "file/state"\n[listen]\nunix = "sandboxd.sock"\nallow_root = true\n'
        '[[instance]]\nid = "main"\nroot = "/srv"\npolicies = []\n'
    )
    command = [sys.executable, "-m", "sandboxd", "serve", "--config", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)

    assert ran.returncode == 78
    assert f"`state_dir`: cannot make the folder `{tmp_path}/file/state`: not a directory" in ran.stderr
