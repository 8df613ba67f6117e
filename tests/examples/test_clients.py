"""Do the example clients do the whole job against a real daemon and the example's own runner?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import ptyprocess
import pytest

from tests.support.daemon import Daemon

REPOSITORY = Path(__file__).resolve().parents[2]
CLIENTS = REPOSITORY / "examples" / "clients"
REQUESTS = ".aiwg/ops/adapters/sandbox-agent-runner/examples"
PATIENCE_S = 60
WAYS = [(binding, mode) for binding in ("JSONRPC", "HTTP+JSON") for mode in ("blocking", "streaming")]


@pytest.fixture
def served(daemon: Daemon) -> Daemon:
    """A running daemon whose workspace is the example's."""
    shutil.copytree(REPOSITORY / "examples" / "workspace", daemon.workspace, dirs_exist_ok=True)
    return daemon


def sdk(served: Daemon, *options: str) -> subprocess.CompletedProcess[str]:
    token = served.folder / "state" / "cli.token"
    return finish([sys.executable, CLIENTS / "sdk_client.py", "--url", served.url, "--token-file", token, *options], {})


def curl(served: Daemon, *answers: str, **env: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("curl") is None:
        pytest.skip("NOT TESTED HERE: there is no curl")
    return finish([CLIENTS / "curl_client.sh", served.url, served.folder / "state" / "cli.token", *answers], env)


def finish(argv: list[str | Path], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def facts(done: subprocess.CompletedProcess[str], what: str) -> list[str]:
    """What the client said under this word."""
    return [line.removeprefix(what).strip() for line in done.stdout.splitlines() if line.startswith(what)]


def plan(served: Daemon, cycle: str = "cycle-005") -> Path:
    return served.workspace / ".aiwg/ops/runs/M011" / cycle / "plan.json"


@pytest.mark.parametrize(("binding", "mode"), WAYS)
def test_the_sdk_client_is_asked_answers_and_sees_the_end(served: Daemon, binding: str, mode: str) -> None:
    done = sdk(served, "--binding", binding, "--mode", mode, "--answer", "y")

    assert done.returncode == 0, done.stdout + done.stderr
    assert facts(done, "prompt") == ["Write the plan to .aiwg/ops/runs? [y/N]"]
    states = facts(done, "state")
    assert states[-1] == "completed"
    assert "input-required" in states
    assert facts(done, "artifact") == ["terminal"]
    assert "Wrote .aiwg/ops/runs/M011/cycle-005/plan.json" in done.stdout
    assert plan(served).is_file()


@pytest.mark.parametrize("mode", ["blocking", "streaming"])
def test_the_sdk_client_answers_one_question_after_the_other(served: Daemon, mode: str) -> None:
    answers = ["--answer", "", "--answer", "n", "--answer", "y"]
    done = sdk(served, "--mode", mode, "--request", f"{REQUESTS}/several-questions-request.json", *answers)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(facts(done, "prompt")) == 3
    assert plan(served, "several-questions").is_file()


def test_the_sdk_client_sees_a_no_as_a_failed_task(served: Daemon) -> None:
    done = sdk(served, "--answer", "n")

    assert done.returncode == 1
    assert facts(done, "state")[-1] == "failed"
    assert not plan(served).exists()


def test_the_sdk_client_gets_the_report_of_an_assess_run(served: Daemon) -> None:
    done = sdk(served, "--adapter-mode", "assess", "--request", f"{REQUESTS}/assess-workspace-request.json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "sandbox-agent-runner/report/1" in done.stdout


def test_curl_is_asked_answers_and_sees_the_end(served: Daemon) -> None:
    done = curl(served, "y")

    assert done.returncode == 0, done.stdout + done.stderr
    assert facts(done, "prompt") == ["Write the plan to .aiwg/ops/runs? [y/N]"]
    assert facts(done, "state")[-1] == "completed"
    assert facts(done, "artifact") == ["terminal"]
    assert "Wrote .aiwg/ops/runs/M011/cycle-005/plan.json" in done.stdout
    assert plan(served).is_file()


def test_curl_answers_one_question_after_the_other(served: Daemon) -> None:
    done = curl(served, "", "n", "y", REQUEST=f"{REQUESTS}/several-questions-request.json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert plan(served, "several-questions").is_file()


def test_curl_sees_a_failed_assess_run(served: Daemon) -> None:
    done = curl(served, MODE="assess", REQUEST=f"{REQUESTS}/assess-failing-request.json")

    assert done.returncode == 1
    assert facts(done, "state")[-1] == "failed"
    assert "1 passed, 3 failed" in done.stdout


@pytest.fixture
def demo_env(node: Path, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "SANDBOXD_NODE": str(node), "TMPDIR": str(tmp_path)}


@pytest.mark.skipif(
    os.geteuid() == 0, reason="NOT TESTED HERE: the demo's daemon refuses to run as root (`make test` does not)"
)
def test_the_demo_answers_itself_without_a_terminal(demo_env: dict[str, str], tmp_path: Path) -> None:
    done = finish([sys.executable, REPOSITORY / "examples" / "demo.py"], demo_env)

    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ("TASK_STATE_INPUT_REQUIRED", "Write the plan to .aiwg/ops/runs? [y/N]", "TASK_STATE_COMPLETED", "`terminal`"):
        assert shown in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    os.geteuid() == 0, reason="NOT TESTED HERE: the demo's daemon refuses to run as root (`make test` does not)"
)
@pytest.mark.parametrize(("answer", "end"), [("y", "The task is completed"), ("n", "The task is failed")])
def test_the_demo_lets_the_person_answer(demo_env: dict[str, str], answer: str, end: str) -> None:
    argv = [sys.executable, str(REPOSITORY / "examples" / "demo.py")]
    person = ptyprocess.PtyProcessUnicode.spawn(argv, env=demo_env, dimensions=(24, 200))
    seen = ""
    while "your answer:" not in seen:
        seen += person.read()
    person.write(f"{answer}\n")
    while "Enter ends it sooner." not in seen:  # the link to the cockpit, where nobody answers here
        seen += person.read()
    person.write("\n")
    try:
        while True:
            seen += person.read()
    except EOFError:  # the demo is over
        pass

    assert person.wait() == 0, seen
    assert end in seen
    assert "/#/q/1" in seen
    assert "Nobody answered" in seen
