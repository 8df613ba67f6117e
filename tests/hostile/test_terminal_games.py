"""What a program does to its own terminal does not change what the daemon reads, asks and types there."""

from __future__ import annotations

import pytest

from tests.support.daemon import Daemon, output_of, prompt_of, state_of

# Each one with all the rights of level `none`: at the others some of them are refused.
GAMES = {
    "nobody else may open it": "fcntl.ioctl(0, 0x540C)",  # TIOCEXCL
    "it does not wait": "[fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK) for fd in (0, 1, 2)]",
    "it signals": "signal.signal(signal.SIGIO, signal.SIG_IGN); fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()); "
    "fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)",
    "its output was stopped and goes on": "termios.tcflow(1, termios.TCOOFF); termios.tcflow(1, termios.TCOON)",
    "it was told to stop sending": "termios.tcflow(0, termios.TCIOFF); termios.tcflow(0, termios.TCION)",
    "somebody else edits its lines": "lflag(0x10000)",  # EXTPROC: packet mode tells of every change then
    "it has no size": "fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('4H', 0, 0, 0, 0))",
    "it is larger than any": "fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('4H', 65535, 65535, 65535, 65535))",
    "its output is what it flushed": "[os.write(1, b'gone') and termios.tcflush(0, termios.TCIOFLUSH) for _ in range(20)]",
    "its speed is nothing": "speed(termios.B50)",
    "packet mode is asked for from below": "quietly(lambda: fcntl.ioctl(0, termios.TIOCPKT, struct.pack('i', 0)))",
    "its session was given up and taken": "fcntl.ioctl(0, termios.TIOCNOTTY); fcntl.ioctl(0, termios.TIOCSCTTY, 0)",
}
PROGRAM = """
import contextlib, fcntl, os, signal, struct, termios

def quietly(act):
    with contextlib.suppress(OSError):
        act()

def lflag(bits):
    mode = termios.tcgetattr(0)
    mode[3] |= bits
    termios.tcsetattr(0, termios.TCSANOW, mode)

def speed(value):
    mode = termios.tcgetattr(0)
    mode[4] = mode[5] = value
    termios.tcsetattr(0, termios.TCSANOW, mode)

signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
{game}
for fd in (0, 1, 2):
    os.set_blocking(fd, "wait" not in {name!r})
os.write(1, b"\\nWhat is its name? ")
import select
select.select([0], [], [])
os.write(1, b"it is " + os.read(0, 100))
"""
POLICY = """
format = 1
adapter = "game"

[command]
program = "bash"
argv = ["bash", "game.sh"]
terminal = "text-line"

[command.env]
PATH = "/usr/bin:/bin"

[hole.mode]
one-of = ["plan"]
"""


@pytest.mark.parametrize("name", GAMES)
def test_the_question_is_asked_and_answered_once(tmp_path, node, name):
    daemon = Daemon(tmp_path, str(node), policy=POLICY)
    (daemon.workspace / "game.sh").write_text("exec /usr/bin/python3 game.py\n")
    (daemon.workspace / "game.py").write_text(PROGRAM.format(game=GAMES[name], name=name))
    daemon.start()
    try:
        envelope = daemon.envelope("", adapter="game", command=["bash", "game.sh"])
        with daemon.client() as client:
            answer = client.post("/message:send", json=daemon.message(envelope))
        assert answer.status_code == 200, answer.text
        asked = answer.json()["task"]
        assert state_of(asked) == "INPUT_REQUIRED", (asked["status"], output_of(asked))
        assert "What is its name?" in prompt_of(asked)["prompt"]
        told = daemon.answer(asked, "Ada", wait=True)
        assert told.status_code == 200, told.text
        done = told.json()["task"]

        assert state_of(done) == "COMPLETED", (done["status"], output_of(done))
        assert output_of(done).count("it is Ada") == 1
    finally:
        daemon.end()
