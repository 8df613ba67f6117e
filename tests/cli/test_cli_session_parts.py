"""The pure parts of a local run: the plan as it is shown, the answers that were prepared, the question, the exit code."""

from __future__ import annotations

import os
import re
import termios
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from sandboxd.cli.ask import InputEnded, LineFull, forget_typed, interpret, question_lines, read_line
from sandboxd.cli.facts import Question
from sandboxd.cli.outcome import exit_code, result_line, signal_number
from sandboxd.cli.plan import Setting, decision_json, decision_lines
from sandboxd.cli.prepared import PreparedAnswers
from sandboxd.cli.run import below_root
from sandboxd.errors import Problem
from sandboxd.hitl.answer import Choice
from sandboxd.policy.model import Allowed, CheckedPath, Denied, LaunchPlan, Limits, PromptRules

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
PLAN = LaunchPlan(
    adapter="sandbox-agent-runner",
    mode="plan",
    program="/usr/bin/node",
    argv=("node", "runner.mjs", "--request", "a b.json"),
    cwd=".",
    env={"LANG": "C.UTF-8", "AIWG_A2A_TASK_ID": "made-up", "LONG": "x" * 500, "LINES": "a\nb"},
    paths=(CheckedPath("request", "a b.json", "file"),),
    limits=Limits(memory_bytes=1024**3, processes=64),
    prompts=PromptRules(),
    terminal=True,
    isolation="none",
    policy="sandbox-agent-runner",
    policy_digest="sha256:abc",
    isolation_notes=("the network is open",),
)
SETTING = Setting("a b.json", "local", Path("/srv/w"), "config /etc/x", "here as me", {"HOME", "LANG", "SECRET"})
QUESTION = Question(
    "p1", "Write it? [y/N]", {}, NOW + timedelta(minutes=4), "yes_no", (Choice("y", "Yes"), Choice("n", "No")), "n"
)


def test_a_plan_shows_what_runs_with_what_and_within_what() -> None:
    shown = "\n".join(decision_lines(Allowed(PLAN), SETTING))

    assert "will run   node runner.mjs --request 'a b.json'" in shown
    assert "4 variables, built from the policy; 2 of yours are not passed on" in shown
    assert "LANG=C.UTF-8" in shown
    assert "300 s, output 16.0 MiB, 1024 open files, memory 1.0 GiB, 64 processes" in shown
    assert "isolation  NONE: it runs with your own rights" in shown
    assert "note: the network is open" in shown
    assert "✓ request: a b.json" in shown
    assert "questions answered here as me" in shown


def test_a_plan_shows_no_more_than_fits_of_a_value() -> None:
    lines = decision_lines(Allowed(PLAN), SETTING)

    assert max(map(len, lines)) < 140
    assert any("LINES=a…" in line for line in lines)
    assert not any("made-up" in line for line in lines)


def test_a_plan_as_json_holds_all_of_it() -> None:
    spelled = decision_json(Allowed(PLAN), SETTING)

    assert (spelled["schema"], spelled["allowed"]) == ("sandboxd.plan/1", True)
    assert spelled["argv"] == list(PLAN.argv)
    assert spelled["env"] == dict(PLAN.env)
    assert spelled["limits"]["timeout_s"] == 300


def test_a_refusal_shows_every_reason() -> None:
    denied = Denied((Problem("request", "is a symlink"), Problem("mode", "is not allowed")))

    assert [line.strip() for line in decision_lines(denied, SETTING)][-2:] == [
        "checks     ✗ `request`: is a symlink",
        "✗ `mode`: is not allowed",
    ]
    assert decision_json(denied, SETTING)["reasons"][1] == {"field": "mode", "reason": "is not allowed"}


def prepared(*pairs: tuple[str, str]) -> PreparedAnswers:
    return PreparedAnswers([(re.compile(pattern), text) for pattern, text in pairs])


def test_each_prepared_answer_is_used_once_and_in_order() -> None:
    answers = prepared(("Write", "y"), ("Write", "n"))

    assert [answers.take("Write it?"), answers.take("Write it?"), answers.take("Write it?")] == ["y", "n", None]


def test_a_prepared_answer_waits_for_its_turn() -> None:
    answers = prepared(("first", "1"), ("second", "2"))

    assert answers.take("second question") is None
    assert answers.next_pattern == "first"
    assert answers.take("first question") == "1"
    assert answers.take("second question") == "2"
    assert answers.next_pattern is None


def test_a_question_shows_its_choices_default_and_time() -> None:
    assert question_lines(QUESTION, 2, NOW) == [
        "┌ question 2 · 4:00 left",
        "│ Write it? [y/N]",
        "│ [y] Yes   [n] No (default)   or any other text",
        "│ Enter alone: the program's default, n",
    ]


def test_a_secret_is_announced_as_hidden() -> None:
    secret = attrs.evolve(QUESTION, kind="secret", choices=(), default=None, deadline=None)

    assert question_lines(secret, 1, NOW)[-1] == "│ what you type is not shown"


@pytest.mark.parametrize(
    ("question", "typed", "meant"),
    [
        (QUESTION, "y", "y"),
        (QUESTION, "other", "other"),
        (QUESTION, "", ""),
        (attrs.evolve(QUESTION, default=None), "", None),
        (attrs.evolve(QUESTION, choices=(), default=None), "", ""),
    ],
)
def test_enter_alone_answers_only_where_it_means_something(question: Question, typed: str, meant: str | None) -> None:
    assert interpret(question, typed) == meant


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("completed", {"reason": "exit", "exit_code": 0}, 0),
        ("failed", {"reason": "exit", "exit_code": 3}, 3),
        ("failed", {"reason": "exit", "exit_code": 3.0}, 3),
        ("failed", {"reason": "signal", "signal": "SIGKILL"}, 137),
        ("failed", {"reason": "timeout", "signal": "SIGTERM"}, 124),
        ("failed", {"reason": "prompt-expired"}, 123),
        ("failed", {"reason": "spawn-failed"}, 125),
        ("failed", {"reason": "spawner-died"}, 125),
        ("rejected", {"reason": "rejected"}, 125),
        ("canceled", {"reason": "canceled"}, 130),
    ],
)
def test_every_end_has_its_exit_code(state: str, outcome: dict[str, Any], code: int) -> None:
    assert exit_code(state, outcome) == code


def test_signals_are_known_by_name_and_number() -> None:
    assert [signal_number(name) for name in ("SIGKILL", "TERM", "9", "NONE")] == [9, 15, 9, 0]


def test_the_result_sums_up() -> None:
    line = result_line("failed", {"reason": "exit", "exit_code": 3}, took_s=41.2, questions=1, task_id="t")

    assert line == "failed in 41 s · exit 3 · 1 question answered · task t"


def test_a_request_is_spelled_relative_to_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root/sub").mkdir(parents=True)
    (tmp_path / "root/sub/r.json").touch()
    (tmp_path / "elsewhere.json").touch()
    root = tmp_path / "root"
    monkeypatch.chdir(root / "sub")

    assert below_root("sub/r.json", root) == "sub/r.json"
    assert below_root("r.json", root) == "sub/r.json"
    assert below_root(str(root / "sub/r.json"), root) == "sub/r.json"
    assert below_root("../../elsewhere.json", root) == "../../elsewhere.json"
    assert below_root("none.json", root) == "none.json"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The descriptors of a person's keyboard and of the terminal that `run` reads."""
    keyboard, tty = os.openpty()
    yield keyboard, tty
    os.close(keyboard)
    os.close(tty)


def echoes(tty: int) -> bool:
    return bool(termios.tcgetattr(tty)[3] & termios.ECHO)


async def test_a_line_is_read_without_its_newline(terminal: tuple[int, int]) -> None:
    keyboard, tty = terminal
    os.write(keyboard, "jà\n".encode())

    assert await read_line(tty, hide=False) == "jà"


async def test_echo_is_off_while_a_secret_is_typed_and_on_again_after(terminal: tuple[int, int]) -> None:
    keyboard, tty = terminal
    async with trio.open_nursery() as nursery:

        async def person() -> None:
            while echoes(tty):  # noqa: ASYNC110  # the kernel has no event for it
                await trio.sleep(0.001)
            os.write(keyboard, b"s3cret\n")

        nursery.start_soon(person)
        assert await read_line(tty, hide=True) == "s3cret"

    assert echoes(tty)
    assert b"s3cret" not in os.read(keyboard, 100)


async def test_echo_is_on_again_when_a_secret_is_no_longer_wanted(terminal: tuple[int, int]) -> None:
    _, tty = terminal
    with trio.move_on_after(0.05):
        await read_line(tty, hide=True)

    assert echoes(tty)


async def test_a_line_that_the_terminal_may_have_cut_is_not_taken(terminal: tuple[int, int]) -> None:
    keyboard, tty = terminal
    os.write(keyboard, b"x" * 4095 + b"\n")

    with pytest.raises(LineFull):
        await read_line(tty, hide=False)


async def test_the_end_of_input_is_no_line(terminal: tuple[int, int]) -> None:
    keyboard, tty = terminal
    os.write(keyboard, b"\x04")

    with pytest.raises(InputEnded):
        await read_line(tty, hide=False)


async def test_what_was_typed_before_the_question_is_thrown_away(terminal: tuple[int, int]) -> None:
    keyboard, tty = terminal
    os.write(keyboard, b"y\n")
    forget_typed(tty)
    os.write(keyboard, b"n\n")

    assert await read_line(tty, hide=False) == "n"
