"""Do the same verbs do the same at a cockpit as at a host, with the same exit codes and the same verdicts?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cockpit.test_cockpit_foreign import question
from tests.fakes.executor import Executor
from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import Daemon, output_of, prompt_of, wait_until
from tests.support.programs import begun
from tests.support.tokens import sandboxd

RULES = """
format = 1
[usual]
answers = "public"
"""


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Executor() as server:
        yield server


@pytest.fixture(scope="module")
def cockpit(tmp_path_factory: pytest.TempPathFactory, executor: Executor, shared: Daemon) -> Iterator[Cockpit]:
    hosts = {"lab": (executor.url, ""), "here": (shared.url, shared.token)}
    made = Cockpit(tmp_path_factory.mktemp("cockpit"), hosts, rules=RULES)
    made.start()
    yield made
    made.end()


def ask(executor: Executor, cockpit: Cockpit, **more) -> str:
    envelope = question(**more)
    executor.ask(executor.begin(), envelope)
    cockpit.prompt(envelope["prompt_id"])
    return str(envelope["prompt_id"])


def test_a_question_of_a_real_daemon_is_listed_shown_and_answered(cockpit, shared):
    task = shared.run([["ask", "Proceed with 3 changes? [y/N] "]])
    prompt_id = prompt_of(task)["prompt_id"]
    cockpit.prompt(prompt_id)

    listed = cockpit.cli("prompts")
    here = sandboxd(shared, "prompts")
    row, of_host = (
        next(line.split("\t") for line in out.splitlines() if prompt_id in line) for out in (listed.stdout, here.stdout)
    )
    assert row[:2] == of_host[:2] == [prompt_id, task["id"]]
    assert row[4:] == of_host[4:] == ["y/n*", "Proceed with 3 changes? [y/N]"]

    shown = cockpit.cli("prompts", "show", prompt_id[:8])
    assert f"task\t{task['id']}" in shown.stdout
    assert "you\tmay answer" in shown.stdout

    done = cockpit.cli("answer", prompt_id[:8], "--choice", "yes", "--wait", "30s", "--note", "looked at it")
    assert done.returncode == 0, done.stderr
    assert "the host has taken it" in done.stderr
    assert 'answer: "y"' in output_of(shared.until(task["id"], "COMPLETED", timeout_s=60))

    told = cockpit.cli("prompts", "history", prompt_id[:8], "--json")
    story = [json.loads(line) for line in told.stdout.splitlines()]
    (voted,) = [one for one in story if one["event"] == "voted"]
    assert (voted["principal"], voted["channel"], voted["outcome"], voted["note"]) == (
        "token:alice",
        "cli",
        "decided",
        "looked at it",
    )
    of_task = [json.loads(line) for line in sandboxd(shared, "prompts", "history", prompt_id, "--json").stdout.splitlines()]
    assert [(one["turn"], one["prompt_id"]) for one in of_task] == [("asked", prompt_id), ("answered", prompt_id)]


def test_a_question_is_asked_again_at_its_host_and_not_while_it_is_open_at_the_cockpit(cockpit, shared):
    task = shared.run([["ask", "Proceed with 4 changes? [y/N] "]])
    first = prompt_of(task)["prompt_id"]
    cockpit.prompt(first)

    assert sandboxd(shared, "prompts", "reissue", first[:8]).returncode == 0
    second = prompt_of(shared.get(task["id"]))["prompt_id"]
    assert second != first
    assert cockpit.prompt(first, "closed")["status"] != "responded"
    cockpit.prompt(second)

    refused = cockpit.cli("prompts", "reissue", second)
    assert (refused.returncode, "it is open here" in refused.stderr) == (5, True)
    assert cockpit.cli("answer", second, "--choice", "y", "--wait", "30s").returncode == 0
    shared.until(task["id"], "COMPLETED", timeout_s=60)


def test_exit_codes_tell_what_became_of_an_answer(cockpit, executor):
    prompt_id = ask(executor, cockpit)

    assert cockpit.cli("answer", "ffffffff", "--text", "y").returncode == 3
    assert cockpit.cli("answer", prompt_id, "--text", "far too long").returncode == 6
    assert cockpit.cli("answer", prompt_id, "--text", "y", "--expect-text", "Reboot").returncode == 5
    assert cockpit.cli("answer", prompt_id, "--text", "y", "--choice", "y").returncode == 2
    assert executor.taken(prompt_id) is None
    assert cockpit.cli("answer", prompt_id, "--text", "y", "--wait", "30s").returncode == 0
    again = cockpit.cli("answer", prompt_id, "--text", "n")
    assert again.returncode == 5
    assert "nothing was sent" in again.stderr
    assert executor.taken(prompt_id) == {"text": "y"}


def test_a_question_that_was_cancelled_is_gone(cockpit, executor):
    prompt_id = ask(executor, cockpit)

    assert cockpit.cli("prompts", "cancel", prompt_id, "--reason", "not today").returncode == 0
    assert cockpit.prompt(prompt_id, "closed")["status"] == "cancelled"
    assert cockpit.cli("answer", prompt_id, "--text", "y").returncode == 7


def test_what_is_paused_names_its_reason_and_its_way_out(cockpit, executor):
    prompt_id = ask(executor, cockpit, allowed_responders=["team:ops"])

    shown = cockpit.cli("prompts", "show", prompt_id).stdout
    assert "no responder rule is understood: team:ops" in shown
    assert "way out\tanswer it at its host, or end its task (cancel)" in shown
    assert cockpit.cli("prompts", "cancel", prompt_id, "--reason", "nobody can").returncode == 0


def test_who_may_not_is_told_so_and_who_is_nobody_too(cockpit, executor):
    prompt_id = ask(executor, cockpit, allowed_responders=["specific:bob"])

    refused = cockpit.cli("answer", prompt_id, "--text", "y")
    assert refused.returncode == 4
    assert "token:alice is none of those who may answer it: bob" in refused.stderr
    assert cockpit.cli("answer", prompt_id, "--text", "y", person="bob").returncode == 0
    stranger = cockpit.write("stranger.token", "x" * 40)
    argv = ["prompts", "--cockpit", cockpit.url, "--token-file", str(stranger)]
    assert cockpit.cli(*argv, person=None).returncode == 4
    assert cockpit.cli("prompts", "--cockpit", cockpit.url, person=None).returncode == 4
    assert cockpit.cli("prompts", "--cockpit", "http://127.0.0.1:9", "--token-file", str(stranger), person=None).returncode == 9


def test_two_of_three_one_not_eligible_one_voting_twice(cockpit, executor):
    patterns = ["specific:alice", "specific:bob", "consensus:2"]
    prompt_id = ask(executor, cockpit, allowed_responders=patterns)

    first = cockpit.cli("answer", prompt_id, "--text", "n")
    twice = cockpit.cli("answer", prompt_id, "--text", "y", "--output", "json")
    other = cockpit.cli("answer", prompt_id, "--text", "y", person="carol")
    assert (first.returncode, twice.returncode, other.returncode) == (0, 0, 4)
    assert "1 of 2" in first.stderr
    assert json.loads(twice.stdout)["outcome"] == "counted"
    assert executor.taken(prompt_id) is None
    with cockpit.browser("carol") as browser:  # by web she is no more eligible than by the command line
        assert browser.post(f"/api/prompts/{prompt_id}/answer", json={"payload": {"text": "y"}}).status_code == 403
    assert "[1 of 2]" in cockpit.cli("prompts").stdout
    assert cockpit.cli("answer", prompt_id, "--text", "y", "--wait", "30s", person="bob").returncode == 0

    assert executor.taken(prompt_id) == {"text": "y"}
    closed = cockpit.prompt(prompt_id, "closed")
    assert closed["verdict"]["persons"] == ["alice", "bob"]
    votes = [one["outcome"] for one in closed["history"] if one["event"] == "voted"]
    assert votes == ["counted", "counted", "not-eligible", "not-eligible", "decided"]


def test_the_verdict_is_the_same_by_command_line_and_by_web(cockpit, executor):
    cases = [
        ({}, {"text": "y"}, 0, "decided"),
        ({}, {"text": "far too long"}, 6, "invalid"),
        ({"allowed_responders": ["specific:bob"]}, {"text": "y"}, 4, "not-eligible"),
        ({"allowed_responders": ["consensus:2"]}, {"text": "y"}, 0, "counted"),
        ({"allowed_responders": ["quorum:3"]}, {"text": "y"}, 4, "not-eligible"),
    ]
    for envelope, payload, code, outcome in cases:
        by_cli, by_web = ask(executor, cockpit, **envelope), ask(executor, cockpit, **envelope)
        assert cockpit.cli("answer", by_cli, "--json", json.dumps(payload)).returncode == code
        with cockpit.browser("alice") as browser:
            browser.post(f"/api/prompts/{by_web}/answer", json={"payload": payload})
        for prompt_id in (by_cli, by_web):
            with cockpit.client("alice") as client:
                story = client.get(f"/api/prompts/{prompt_id}").json()["prompt"]["history"]
            assert [one["outcome"] for one in story if one["event"] == "voted"] == [outcome], (envelope, payload)


def test_a_watcher_sees_what_happens_and_can_go_on_where_it_was(cockpit, executor):
    argv = [sys.executable, "-m", "sandboxd", "watch", "--json", "--cockpit", cockpit.url]
    token = ["--token-file", str(cockpit.folder / "alice.token")]
    prompt_id = ask(executor, cockpit)
    with begun([*argv, prompt_id, "--after", "0", *token], stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        first = json.loads(watcher.stdout.readline())
        cockpit.cli("answer", prompt_id, "--text", "y")
        seen = [first]
        while seen[-1]["entry"]["outcome"] != "responded":
            seen.append(json.loads(watcher.stdout.readline()))
        watcher.send_signal(2)
        assert watcher.wait(timeout=WAIT_S) == 130

    assert (first["entry"]["event"], first["entry"]["outcome"]) == ("received", "asked")
    assert [one["seq"] for one in seen] == sorted({one["seq"] for one in seen})
    assert {one["prompt"]["prompt_id"] for one in seen} == {prompt_id}


def test_a_watcher_of_a_host_sees_a_task_ask_and_end(shared, tmp_path):
    seen = tmp_path / "seen"
    argv = [sys.executable, "-m", "sandboxd", "watch", "--json", "--config", str(shared.config)]
    with seen.open("wb") as out, begun(argv, stdout=out) as watcher:
        task = shared.run([["ask", "Proceed? [y/N] "]])

        def states() -> list[str]:
            told = [json.loads(line) for line in seen.read_text().splitlines()]
            return [one["state"] for one in told if one["id"] == task["id"]]

        wait_until(lambda: "input-required" in states(), timeout_s=WAIT_S, what="the question")
        shared.answer(task, "y")
        wait_until(lambda: "completed" in states(), timeout_s=WAIT_S, what="the end")
        watcher.send_signal(2)
        assert watcher.wait(timeout=WAIT_S) == 130


def test_the_socket_is_as_good_as_the_url_for_whom_it_knows(cockpit):
    done = cockpit.cli("prompts", "--cockpit", str(cockpit.socket), person=None)

    assert done.returncode == (0 if os.geteuid() == 0 else 4), done.stderr


def test_text_of_a_question_steers_no_terminal(cockpit, executor):
    prompt_id = ask(executor, cockpit, prompt="Sure?\x1b[2J\x07 \u202eyes")

    shown = cockpit.cli("prompts", "show", prompt_id).stdout + cockpit.cli("prompts").stdout

    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


def test_a_bad_target_is_said_to_be_one(cockpit, tmp_path: Path):
    token = cockpit.folder / "alice.token"
    for url in ("ftp://x", "http://cockpit.example"):
        assert cockpit.cli("prompts", "--cockpit", url, "--token-file", str(token), person=None).returncode == 2
    assert cockpit.cli("prompts", "resume", "1", person=None).returncode == 2
    assert cockpit.cli("answer", "1", "--text", "y", "--note", "x", person=None).returncode == 2
