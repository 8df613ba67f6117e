"""What does `check` find in what an operator wrote?"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxd import logs
from sandboxd.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]
POLICY = REPOSITORY / "policies/sandbox-agent-runner.toml"
PACK = REPOSITORY / "detectors/shell.toml"


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    yield
    logs.configure()  # checking a request has only warnings logged


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write(tmp_path / "mine.toml", POLICY.read_text())


def rows(printed: str) -> list[list[str]]:
    return [line.split("\t") for line in printed.splitlines()]


def test_a_policy_and_its_examples_hold(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "policy", str(policy)]) == 0

    (row,) = rows(capsys.readouterr().out)
    assert row[:3] == ["ok", "policy", str(policy)]
    assert "examples hold" in row[3]


def test_an_example_that_does_not_hold_is_told(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(policy, policy.read_text().replace('one-of = ["plan", "assess"]', 'one-of = ["assess"]'))

    assert main(["check", "policy", str(policy)]) == 1

    assert "should be allowed, and is denied" in capsys.readouterr().out


def test_a_policy_that_names_an_unknown_detector_fails(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(policy, policy.read_text().replace('["shell", "node"]', '["shell", "nowhere"]'))

    assert main(["check", "policy", str(policy), "--json"]) == 1

    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert "no detector pack `nowhere`" in check["problems"][0]["reason"]


def test_a_policy_that_others_can_write_fails(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.chmod(0o666)

    assert main(["check", "policy", str(policy)]) == 1

    assert "others may write it" in capsys.readouterr().out


def test_a_pack_and_its_examples_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pack = write(tmp_path / "shell.toml", PACK.read_text())

    assert main(["check", "pack", str(pack)]) == 0

    assert {row[0] for row in rows(capsys.readouterr().out)} == {"ok"}


def test_a_pack_with_a_broken_rule_fails_where_it_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = write(tmp_path / "mine.toml", 'format = 1\n[[rule]]\nid = "mine.x"\nlin = "x"\n')

    assert main(["check", "pack", str(pack)]) == 1

    failed = [row for row in rows(capsys.readouterr().out) if row[0] == "fail"]
    assert {row[2] for row in failed} == {str(pack)}


def config(folder: Path, *, root: str = "root", extra: str = "") -> Path:
    (folder / "root").mkdir(exist_ok=True)
    write(folder / "mine.toml", POLICY.read_text())
    return write(
        folder / "sandboxd.toml",
        f'state_dir = "state"\n{extra}[programs]\nnode = "/bin/sh"\n[[instance]]\nid = "a"\nroot = "{root}"\n'
        'policies = ["mine.toml"]\n',
    )


def test_a_config_is_checked_with_all_that_it_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", str(config(tmp_path))]) == 0

    kinds = [row[1] for row in rows(capsys.readouterr().out)]
    assert {"config", "program", "instance", "policy", "detectors"} <= set(kinds)


def test_a_pinned_runner_is_compared_with_the_one_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = config(tmp_path)
    runner = tmp_path / "root/.aiwg/ops/adapters/sandbox-agent-runner/runner.mjs"
    runner.parent.mkdir(parents=True)
    runner.write_text("as it was pinned")
    digest = hashlib.sha256(runner.read_bytes()).hexdigest()
    write(tmp_path / "mine.toml", f'{POLICY.read_text()}\n[pin]\nrunner = ["sha256:{digest}"]\n')

    assert main(["check", "config", str(named)]) == 0
    pinned = [row for row in rows(capsys.readouterr().out) if row[1] == "pin"]
    runner.write_text("as somebody changed it")
    assert main(["check", "config", str(named)]) == 1
    changed = [row for row in rows(capsys.readouterr().out) if row[1] == "pin"]

    assert [(row[0], row[2].split()[-1]) for row in pinned] == [("ok", "a")]
    assert "and the policy pins another" in changed[0][3]
    assert hashlib.sha256(runner.read_bytes()).hexdigest() in changed[0][3]


def test_a_config_whose_root_is_missing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "config", str(config(tmp_path, root="nowhere"))]) == 1

    assert "is no folder on this host" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED HERE: root may open every folder (`make test` does not run as root)")
@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_root_that_may_not_be_opened_is_told_as_that(tmp_path: Path, below: str, capsys: pytest.CaptureFixture[str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)

    assert main(["check", "config", str(config(tmp_path, root=f"closed{below}"))]) == 1

    assert "may not be opened by the user who checks" in capsys.readouterr().out


def test_a_config_with_an_unknown_key_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "config", str(config(tmp_path, extra="public_ulr = 'x'\n"))]) == 1

    assert "public_ulr" in capsys.readouterr().out


RUNNER = ".aiwg/ops/adapters/sandbox-agent-runner"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / RUNNER
    folder.mkdir(parents=True)
    write(folder / "runner.mjs", "")
    write(folder / "r.json", "{}")
    return tmp_path


def test_a_request_is_checked_as_the_spawner_would(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--mode", "plan", "--config", str(config(workspace))]

    assert main(["check", "request", f"{RUNNER}/r.json", *options]) == 0
    assert f"✓ request: {RUNNER}/r.json" in capsys.readouterr().out


def test_a_request_that_is_a_link_is_refused(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "root" / RUNNER / "link.json").symlink_to("r.json")
    options = ["--mode", "plan", "--config", str(config(workspace)), "--json"]

    assert main(["check", "request", f"{RUNNER}/link.json", *options]) == 1

    decision = json.loads(capsys.readouterr().out)
    assert decision["allowed"] is False
    assert decision["reasons"][0]["field"] == "request"


def test_a_request_of_an_unknown_adapter_names_the_known_ones(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--mode", "plan", "--config", str(config(workspace)), "--adapter", "other"]

    assert main(["check", "request", f"{RUNNER}/r.json", *options]) != 0

    assert "hint: policies here are for: `sandbox-agent-runner`" in capsys.readouterr().err


def test_explain_says_what_fired_and_on_what_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcript = write(tmp_path / "t", "Reading.\r\nOverwrite notes.txt? [y/N] ")

    assert main(["explain", str(transcript)]) == 0

    told = capsys.readouterr().out
    assert "question 1: Overwrite notes.txt? [y/N]" in told
    assert "rule      shell.yes-no" in told
    assert "default `n`" in told


def test_explain_says_what_nearly_fired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcript = write(tmp_path / "t", "Overwrite? [y/N] \r\n")

    assert main(["explain", str(transcript)]) == 0

    assert "shell.yes-no: would fit, but its line has ended: `Overwrite? [y/N]`" in capsys.readouterr().out


def test_explain_tells_a_program_one_event_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        [0.0, "o", "Token: "],
        [0.1, "o", ""],
        [3.0, "i", "*\n"],
        [3.1, "o", "\r\n? Pick one (Use arrow keys)\r\n❯ a\r\n  b"],
    ]
    head = {"version": 2, "width": 80, "height": 24}
    cast = write(tmp_path / "t.cast", "\n".join(json.dumps(line) for line in [head, *events]))
    truth = {"tty_timeline": [[0, 1, 0, 1], [3.05, 0, 0, 1]], "blocked_timeline": [[0.05, 1]], "duration": 9.0}
    write(tmp_path / "t.json", json.dumps(truth))

    assert main(["explain", str(cast), "--json"]) == 0

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["event"], one["kind"], one["answerable"], one["secret"]) for one in told] == [
        ("raised", "secret", True, True),
        ("answered", "secret", True, True),
        ("raised", "menu", False, False),
    ]
    assert set(told[0]) == {"t", "event", "line", "kind", "answerable", "secret", "rule", "evidence"}
    assert (told[0]["line"], told[0]["rule"]) == ("Token:", "generic.kernel")
    assert told[0]["t"] == pytest.approx(0.2, abs=0.2)


def test_explain_shows_hostile_text_as_symbols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcript = write(tmp_path / "t", "Go on \u202e now? [y/N] ")

    main(["explain", str(transcript)])

    assert "\u202e" not in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED HERE: root may open every folder (`make test` does not run as root)")
@pytest.mark.parametrize("command", [["tasks"], ["config", "show"], ["tokens", "list"]], ids=" ".join)
def test_a_config_in_a_closed_folder_is_no_traceback(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)

    assert main([*command, "--config", str(closed / "sandboxd.toml")]) == 1

    assert "permission denied" in capsys.readouterr().err.lower()
