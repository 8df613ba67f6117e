"""`sandboxd run` as a process, with the real engine and a real program behind a policy of the test's own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from sandboxd.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]

# What the program does is the request file's text: lines of Python.
TALKER = "import signal, sys, time, os\nexec(open(sys.argv[2]).read())\n"

POLICY = """
format  = 1
adapter = "talker"
[command]
program = "python"
argv = ["python", "talk.py", "--request", "{request}"]
cwd  = "/workspace"
[command.env]
PATH = "/usr/bin:/bin"
PYTHONUNBUFFERED = "1"
LANG = "C.UTF-8"
[hole.mode]
one-of = ["plan", "assess"]
[hole.request]
path-under = ["requests"]
[limits]
timeout = { default = "20s", max = "1m" }
[prompts]
detectors = ["shell"]
[[example]]
allow = { mode = "plan", request = "requests/a.py" }
[[example]]
deny = { mode = "plan", request = "../a.py" }
because = "request: path-under"
"""


@attrs.frozen
class Bench:
    folder: Path

    def request(self, program: str) -> str:
        (self.folder / "root/requests/r.py").write_text(program)
        return "requests/r.py"

    def argv(self, program: str, *options: str) -> list[str]:
        config = ["--config", str(self.folder / "sandboxd.toml"), "--adapter", "talker"]
        return [
            sys.executable,
            "-m",
            "sandboxd",
            "run",
            "--mode",
            "plan",
            "--request",
            self.request(program),
            *config,
            *options,
        ]

    def run(self, program: str, *options: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(program, *options),
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(),
            check=False,
        )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "COLUMNS": "120"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "root/requests").mkdir(parents=True)
    (tmp_path / "root/talk.py").write_text(TALKER)
    (tmp_path / "talker.toml").write_text(POLICY)
    (tmp_path / "talker.toml").chmod(0o644)
    (tmp_path / "sandboxd.toml").write_text(
        f'state_dir = "state"\n[programs]\npython = "{sys.executable}"\n'
        '[[instance]]\nid = "bench"\nroot = "root"\npolicies = ["talker.toml"]\n'
    )
    (tmp_path / "sandboxd.toml").chmod(0o644)
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("print('done')", 0),
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_the_childs_own_end_is_passed_on(bench: Bench, program: str, code: int) -> None:
    assert bench.run(program).returncode == code


def test_its_timeout_ends_with_124(bench: Bench) -> None:
    assert bench.run("time.sleep(60)", "--timeout", "1s").returncode == 124


def test_what_runs_is_shown_before_its_output(bench: Bench) -> None:
    ran = bench.run("print('out'); print('err', file=sys.stderr)", "--input", "none")

    assert ran.stdout == "out\n"
    plan, _, rest = ran.stderr.partition("── output")
    assert "will run   python talk.py --request requests/r.py" in plan
    assert "PYTHONUNBUFFERED=1" in plan
    assert "20 s" in plan
    assert "✓ request: requests/r.py" in plan
    assert "err\n" in rest
    assert "completed in" in rest


def test_a_refused_request_ends_with_125_and_every_reason(bench: Bench) -> None:
    argv = bench.argv("pass")
    argv[argv.index("--request") + 1] = "requests/none.py"
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment(), check=False)

    assert ran.returncode == 125
    assert "✗ `request`" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize(
    "options", [["--nope"], ["--answer", "x"], ["--answer", "(=y"], ["--timeout", "soon"], ["--root", "."]]
)
def test_wrong_usage_ends_with_125(bench: Bench, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(bench.argv("pass", *options)[3:]) == 125

    assert capsys.readouterr().err.startswith("error: cannot run `sandboxd run`: ")


ASKS_TWICE = """
first = input('Write the plan? [y/N] ')
second = input('Overwrite it? (yes/no): ')
print('heard', first, second)
time.sleep(0.3)  # a program that is gone before its answer's last check counts as one that never had it
"""


def test_prepared_answers_are_typed_in_order(bench: Bench) -> None:
    ran = bench.run(ASKS_TWICE, "--answer", "Write the plan=y", "--answer", "(?i)overwrite=no")

    assert "heard y no" in ran.stdout
    assert ran.returncode == 0


def test_an_answer_out_of_turn_is_not_used(bench: Bench) -> None:
    ran = bench.run(ASKS_TWICE, "--answer", "Overwrite=no", "--answer", "Write=y")

    assert ran.returncode == 123
    assert "The next --answer waits for `Overwrite`" in ran.stderr


def test_an_unanswered_question_ends_the_task_at_once_with_its_prompt_as_json(bench: Bench) -> None:
    began = time.monotonic()
    ran = bench.run(ASKS_TWICE)

    assert ran.returncode == 123
    (prompt,) = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    assert (prompt["schema"], prompt["question"], prompt["default"]) == ("sandboxd.prompt/1", "Write the plan? [y/N]", "n")
    assert "heard" not in ran.stdout
    assert time.monotonic() - began < 15


def test_json_is_one_event_a_line(bench: Bench) -> None:
    ran = bench.run(ASKS_TWICE, "--json", "--answer", "Write=y", "--answer", "Overwrite=no")

    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {event["schema"] for event in events} == {"sandboxd.run/1"}
    assert [event["event"] for event in events if event["event"] != "output"] == [
        "plan",
        "question",
        "answered",
        "question",
        "answered",
        "result",
    ]
    assert "heard y no" in "".join(event["text"] for event in events if event["event"] == "output")
    assert (events[-1]["state"], events[-1]["exit"]) == ("completed", 0)


def test_hostile_output_reaches_the_terminal_as_symbols(bench: Bench) -> None:
    ran = bench.run(r"sys.stdout.write('\x1b]52;c;cm0=\x07 \x1b[2J \u202e \x9b31m\n')")

    assert ran.stdout == "␛]52;c;cm0=␇  \\u202e \\x9b31m\n"
    assert "\x1b" not in ran.stdout + ran.stderr


class Terminal:
    """A run on a terminal of its own, as a person has it."""

    def __init__(self, argv: list[str]) -> None:
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execve(argv[0], argv, environment())  # the test's own interpreter
        self.pid = pid
        self.text = ""
        self.all = ""

    def wait_for(self, pattern: str, *, timeout_s: float = 30) -> None:
        """Until the pattern is on the screen, after what was waited for before."""
        ends_at = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < ends_at, f"{pattern!r} did not come, but: {self.text!r}"
            self._read(1)
        self.text = self.text[found.end() :]

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def end(self, *, timeout_s: float = 30) -> int:
        """The rest of its output, and its exit code."""
        ends_at = time.monotonic() + timeout_s
        while time.monotonic() < ends_at and self._read(1):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: it has ended
            return False
        self.text += data.decode("utf-8", "replace")
        self.all += data.decode("utf-8", "replace")
        return bool(data)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    started: list[Terminal] = []
    yield started
    for terminal in started:
        os.close(terminal.fd)


def test_a_person_answers_in_place(bench: Bench, terminals: list[Terminal]) -> None:
    terminal = Terminal(bench.argv(ASKS_TWICE))
    terminals.append(terminal)

    terminal.wait_for(r"question 1 · 0:[12]\d left")
    terminal.wait_for(r"\[y\] Yes   \[n\] No \(default\)")
    terminal.wait_for("answer: ")
    terminal.type("y\n")
    terminal.wait_for("question 2")
    terminal.wait_for("answer: ")
    terminal.type("\n")
    terminal.wait_for("there is no default")
    terminal.type("no\n")
    terminal.wait_for("heard y no")

    assert terminal.end() == 0
    assert "2 questions answered" in terminal.text, terminal.all


def test_an_answer_that_does_not_fit_is_asked_for_again(bench: Bench, terminals: list[Terminal]) -> None:
    terminal = Terminal(bench.argv(ASKS_TWICE.replace("second = input('Overwrite it? (yes/no): ')", "second = ''")))
    terminals.append(terminal)

    terminal.wait_for("answer: ")
    terminal.type("\x16\x1b[A\n")  # Ctrl-V, Escape: an arrow key, as it reaches a program
    terminal.wait_for("does not fit")
    terminal.wait_for("answer: ")
    terminal.type("n\n")
    terminal.wait_for("heard n")

    assert terminal.end() == 0


def test_ctrl_c_says_so_and_again_cancels(bench: Bench, terminals: list[Terminal]) -> None:
    terminal = Terminal(bench.argv(ASKS_TWICE))
    terminals.append(terminal)

    terminal.wait_for("answer: ")
    terminal.type("\x03")
    terminal.wait_for("still running; Ctrl-C again cancels it")
    terminal.type("\x03")
    terminal.wait_for("Canceling the task")
    terminal.wait_for("canceled in")

    assert terminal.end() == 130


def test_ctrl_c_once_changes_nothing(bench: Bench, terminals: list[Terminal]) -> None:
    terminal = Terminal(bench.argv(ASKS_TWICE.replace("second = input('Overwrite it? (yes/no): ')", "second = ''")))
    terminals.append(terminal)

    terminal.wait_for("answer: ")
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again")
    terminal.type("y\n")
    terminal.wait_for("heard y")

    assert terminal.end() == 0


def test_a_withdrawn_question_is_said_to_be_gone(bench: Bench, terminals: list[Terminal]) -> None:
    waits = "import select; select.select([0], [], [], 1)"
    program = f"print('Proceed? [y/N] ', end='', flush=True); {waits}; print('\\nNobody answered, going on.')"
    terminal = Terminal(bench.argv(program))
    terminals.append(terminal)

    terminal.wait_for("answer: ")
    terminal.wait_for("no longer open")
    terminal.wait_for("completed in")

    assert terminal.end() == 0


def test_sigterm_ends_the_task_and_gives_the_terminal_back(bench: Bench, terminals: list[Terminal]) -> None:
    terminal = Terminal(bench.argv(ASKS_TWICE))
    terminals.append(terminal)
    terminal.wait_for("answer: ")

    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait_for("canceled in")

    assert terminal.end() == 143


def test_two_ends_of_input_end_the_task(bench: Bench, terminals: list[Terminal]) -> None:
    terminal = Terminal(bench.argv(ASKS_TWICE))
    terminals.append(terminal)

    terminal.wait_for("answer: ")
    terminal.type("\x04")
    terminal.wait_for("end of input is no answer")
    terminal.wait_for("answer: ")
    terminal.type("\x04")

    assert terminal.end() == 123
