"""Does `sandboxd attach --cockpit` show a task's terminal through a cockpit, live, without any way in?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cockpit import WAIT_S, Cockpit
from tests.support.daemon import Daemon, output_of, prompt_of, state_of

LEFT = 130  # 128 + SIGINT


@pytest.fixture(scope="module")
def cockpit(tmp_path_factory: pytest.TempPathFactory, shared: Daemon) -> Iterator[Cockpit]:
    made = Cockpit(tmp_path_factory.mktemp("cockpit"), {"here": (shared.url, shared.token)}, people=("alice", "bob"))
    made.start()
    yield made
    made.end()


@contextlib.contextmanager
def attached(cockpit: Cockpit, *args: str, person: str = "alice") -> Iterator[subprocess.Popen[bytes]]:
    target = ["--cockpit", cockpit.url, "--token-file", str(cockpit.folder / f"{person}.token")]
    argv = [sys.executable, "-m", "sandboxd", "attach", *args, *target]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOXD_")}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_it_shows_what_was_printed_and_what_comes_and_ends_with_the_task(cockpit, shared):
    task = shared.run([["print", "before\n"], ["ask", "Proceed? [y/N] "], ["print", "\u001b[31mafter\u001b[0m\n"], ["exit", 3]])
    number = cockpit.prompt(prompt_of(task)["prompt_id"])["number"]
    with attached(cockpit, str(number), "--exit-code") as process:
        assert read_line(process) == b"before\n"
        shared.answer(task, "y")
        out, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == 3
    assert out.decode().endswith("\nafter\n")  # made safe: no colour of the program's reaches this terminal
    assert "── asks: Proceed? [y/N]" in err.decode()
    assert "── failed" in err.decode()


def test_into_a_pipe_it_is_the_exact_bytes(cockpit, shared):
    task = shared.run([["print", "\u001b[1mbold\u001b[0m \u00e9\r\n"], ["ask", "Go on? "], ["print", "done\n"]])
    cockpit.prompt(prompt_of(task)["prompt_id"])
    with attached(cockpit, task["id"][:8], "--raw") as process:
        assert read_line(process).startswith("\u001b[1mbold\u001b[0m \u00e9".encode())
        shared.answer(task, "y")
        rest, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    done = shared.until(task["id"], "COMPLETED")
    assert rest.decode() in output_of(done)
    assert rest.endswith(b"done\r\n")


def test_leaving_stops_nothing(cockpit, shared):
    task = shared.run([["print", "here\n"], ["ask", "Go on? "]])
    with attached(cockpit, f"here/{task['id']}") as process:
        assert read_line(process) == b"here\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == LEFT
    assert f"Left. Task {task['id']} goes on" in err.decode()
    assert state_of(shared.get(task["id"])) == "INPUT_REQUIRED"
    shared.answer(task, "y")


def test_a_cockpit_that_is_killed_loses_the_onlooker_nothing(cockpit, shared, tmp_path: Path):
    port = cockpit.url.rpartition(":")[2]
    task = shared.run([["print", "before\n"], ["ask", "Go on? "], ["print", "after\n"]])
    with attached(cockpit, f"here/{task['id']}") as process:
        assert read_line(process) == b"before\n"
        text = cockpit.config.read_text()
        cockpit.config.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        cockpit.kill()
        cockpit.start()
        shared.answer(task, "y")
        out, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert out.decode().count("after") == 1
    assert "before" not in out.decode()


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("here/no-such-task", 3, "the host `here` does not know it"),
        ("elsewhere/task", 3, "no host of that name"),
        ("ffffffff", 3, "no question's or task's id begins so"),
    ],
)
def test_what_is_not_there_is_said_at_once(cockpit, given, code, said):
    done = cockpit.cli("attach", given)

    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_the_cockpit_says_who_may_look(cockpit, shared):
    (cockpit.folder / "nobody.token").write_text("n" * 40)
    (cockpit.folder / "nobody.token").chmod(0o600)

    done = cockpit.cli("attach", "here/task", person="nobody")

    assert done.returncode == 4
    assert "the token is not valid" in done.stderr
