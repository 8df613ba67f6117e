"""Does `sandboxd attach` show a real task's terminal, live, without any way in?"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import attrs

from tests.support.daemon import Daemon, output_of, wait_until
from tests.support.programs import begun

WAIT_S = 60.0


def command(daemon: Daemon, *args: str) -> list[str]:
    return [sys.executable, "-m", "sandboxd", "attach", *args, "--config", str(daemon.config)]


@attrs.define
class Onlooker:
    """`attach` on a terminal of its own; `seen` is what it drew."""

    process: subprocess.Popen[bytes]
    master: int
    seen: bytes = b""

    def until(self, wanted: bytes) -> None:
        ends_at = time.monotonic() + WAIT_S
        while wanted not in self.seen:
            assert time.monotonic() < ends_at, self.seen
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                self.seen += os.read(self.master, 65536)
            except OSError as error:  # EIO: it has ended
                raise AssertionError(self.seen) from error


@contextlib.contextmanager
def onlooker(daemon: Daemon, *args: str, columns: int = 100) -> Iterator[Onlooker]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = subprocess.Popen(
        command(daemon, *args),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_own_terminal,  # noqa: PLW1509 - one ioctl, and no other thread runs here
    )
    try:
        yield Onlooker(process, master)
    finally:
        process.kill()
        process.wait(timeout=WAIT_S)
        os.close(slave)
        os.close(master)


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_it_shows_what_was_printed_and_what_comes_and_ends_with_the_task(shared: Daemon):
    task = shared.run([["print", "before\n"], ["ask", "Proceed? [y/N] "], ["print", "\u001b[31mafter\u001b[0m\n"], ["exit", 3]])
    argv = command(shared, task["id"], "--exit-code")
    with begun(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "before\n"

        shared.answer(task, "y")

        out, err = process.stdout.read(), process.stderr.read()
    assert "Proceed? [y/N] y" in out
    assert "\nafter\n" in out
    assert "asks: Proceed? [y/N]" in err
    assert "failed" in err
    assert process.returncode == 3


def test_a_task_that_has_ended_is_shown_and_the_usual_code_is_zero(shared: Daemon):
    task = shared.run([["print", "that was it\n"], ["exit", 3]])

    done = subprocess.run(command(shared, task["id"][:8]), check=False, capture_output=True, text=True, timeout=WAIT_S)

    assert (done.returncode, done.stdout) == (0, "that was it\n")


def test_raw_in_a_pipe_is_the_exact_bytes(shared: Daemon):
    task = shared.run([["bytes", "1b5d303b740700ff0a"]])

    done = subprocess.run(command(shared, task["id"], "--raw"), check=False, capture_output=True, timeout=WAIT_S)

    assert done.stdout == b"\x1b]0;t\x07\x00\xff\r\n"


def test_an_unknown_task_is_not_found(shared: Daemon):
    done = subprocess.run(
        command(shared, "00000000-0000-4000-8000-000000000000"), check=False, capture_output=True, timeout=WAIT_S
    )

    assert done.returncode == 3


def test_control_c_leaves_and_the_task_goes_on(shared: Daemon):
    task = shared.run([["print", "before\n"], ["ask", "Proceed? [y/N] "]])
    with onlooker(shared, task["id"]) as looks:
        looks.until(b"asks: Proceed?")
        os.write(looks.master, b"\x03")
        looks.until(b"Left.")
        assert looks.process.wait(timeout=WAIT_S) == 130

    assert shared.get(task["id"])["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    shared.answer(task, "y")
    assert 'answer: "y"' in output_of(shared.until(task["id"], "COMPLETED"))


def test_a_drawn_terminal_has_colours_and_no_way_in_or_out(shared: Daemon):
    query = "\u001b[6n\u001b[c\u001b]0;owned\u0007"
    task = shared.run([["print", f"\u001b[31mred\u001b[0m{query}\n"], ["ask", "Proceed? [y/N] "], ["print", "the end\n"]])
    with onlooker(shared, task["id"], "--raw") as looks:
        looks.until(b"Proceed?")
        os.write(looks.master, b"n\n")  # typed here, it goes nowhere
        fcntl.ioctl(looks.master, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 40, 0, 0))
        looks.process.send_signal(signal.SIGWINCH)
        shared.answer(task, "y")
        looks.until(b"the end")
        looks.until(b"completed")
        assert looks.process.wait(timeout=WAIT_S) == 0
        flags = termios.tcgetattr(looks.master)[3]

    assert b"\x1b[31mred\x1b[0m" in looks.seen
    for never in (b"\x1b[6n", b"\x1b[c", b"\x1b]0", b"owned"):
        assert never not in looks.seen
    assert flags & termios.ECHO
    assert flags & termios.ICANON
    assert 'answer: "y"' in output_of(shared.get(task["id"]))


def test_a_small_window_is_told_that_the_drawing_may_be_torn(shared: Daemon):
    task = shared.run([["print", "done\n"]])
    with onlooker(shared, task["id"], "--raw", columns=40) as looks:
        looks.until(b"may be torn")
        looks.until(b"done")


def test_a_hangup_gives_the_terminal_back(shared: Daemon):
    task = shared.run([["ask", "Proceed? [y/N] "]])
    with onlooker(shared, task["id"], "--raw") as looks:
        looks.until(b"Proceed?")
        wait_until(lambda: not termios.tcgetattr(looks.master)[3] & termios.ECHO, timeout_s=WAIT_S, what="the quiet keyboard")
        looks.process.terminate()
        assert looks.process.wait(timeout=WAIT_S) == 130
        assert termios.tcgetattr(looks.master)[3] & termios.ECHO
    shared.answer(task, "y")
