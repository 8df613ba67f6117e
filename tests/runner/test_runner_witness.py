"""Does the witness tell who waits for input, for real programs in every way that programs wait?"""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from sandboxd.detect.evidence import Evidence
from sandboxd.runner import waiting, witness
from sandboxd.runner.witness import SEARCH_MAX_S, Witness

PYTHON = sys.executable
NODE = os.environ.get("SANDBOXD_NODE") or shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="NOT TESTED HERE: there is no node")

pytestmark = pytest.mark.skipif(
    bool(witness.availability()), reason=f"NOT TESTED HERE: the kernel does not say who reads: {witness.availability()}"
)


@attrs.define
class Run:
    """One program on a terminal of its own, and what it wrote."""

    pid: int
    fd: int
    witness: Witness
    output: bytes = b""

    def until(self, mark: bytes) -> None:
        ends_at = time.monotonic() + 15
        while mark not in self.output:
            assert time.monotonic() < ends_at, self.output
            if select.select([self.fd], [], [], 0.1)[0]:
                self.output += os.read(self.fd, 65536)

    def evidence(self, wanted: bool | None) -> Evidence:
        """What the kernel says, once it says that; a program needs a moment from its last output to its read."""
        ends_at = time.monotonic() + 5
        while (told := self.witness.look()).reading is not wanted and time.monotonic() < ends_at:
            select.select([], [], [], 0.02)
        return told

    def steadily(self, wanted: bool | None) -> Evidence:
        """The same, and that it stays so."""
        told = self.evidence(wanted)
        for _ in range(5):
            select.select([], [], [], 0.02)
            told = self.witness.look()
            assert told.reading is wanted
        return told


@pytest.fixture
def start() -> Iterator[object]:
    runs: list[Run] = []

    def run(*argv: str, mark: bytes) -> Run:
        pid, fd = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            os.execvp(argv[0], argv)
        started = Run(pid, fd, Witness(fd, pid))
        runs.append(started)
        started.until(mark)
        return started

    yield run
    for started in runs:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        os.close(started.fd)
        os.waitpid(started.pid, 0)


@pytest.mark.parametrize(
    ("argv", "mark", "mode", "call"),
    [
        ((PYTHON, "-c", "input('Name: ')"), b"Name: ", (True, True), "read"),
        ((PYTHON, "-c", "import getpass; getpass.getpass()"), b"Password: ", (True, False), "read"),
        ((PYTHON, "-q", "-i"), b">>> ", (False, False), "select"),
        (("bash", "-c", "read -p 'Go? ' x"), b"Go? ", (True, True), "read"),
        (("bash", "-c", "read -sp 'Token: ' x"), b"Token: ", (True, False), "read"),
        (("bash", "-c", "read -t 60 -p 'Go? ' x"), b"Go? ", (True, True), "select"),
        (("bash", "-c", "read -n 1 -p 'Key? ' x"), b"Key? ", (False, True), "read"),
        (("bash", "-c", "exec 3</dev/tty; read -p 'Go? ' -u 3 x </dev/null"), b"Go? ", (True, True), "read"),
        (("bash", "-c", "(read -p 'Go? ' x)"), b"Go? ", (True, True), "read"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_program_that_asks_is_seen_to_wait(start, argv, mark, mode, call) -> None:
    told = start(*argv, mark=mark).evidence(True)

    assert told.reading is True
    assert (told.canonical, told.echo) == mode
    assert told.reader.endswith(f": {call}")
    assert told.is_exact is (call == "read")


@needs_node
def test_node_s_readline_is_seen_to_wait_in_epoll(start) -> None:
    code = "require('readline').createInterface({input:process.stdin,output:process.stdout}).question('Name? ',()=>{})"

    told = start(str(NODE), "-e", code, mark=b"Name? ").evidence(True)

    assert (told.reading, told.canonical, told.reader) == (True, False, "node: epoll")


@needs_node
def test_an_idle_reader_waits_too_and_is_never_exact(start) -> None:
    code = "process.stdin.resume(); console.log('ready'); setTimeout(()=>{},60000)"

    told = start(str(NODE), "-e", code, mark=b"ready").evidence(True)

    assert (told.reading, told.is_exact) == (True, False)


@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="NOT TESTED HERE: not an x86_64, whose 32-bit calls have numbers of their own"
)
def test_a_32_bit_program_is_seen_to_wait(start, tmp_path: Path) -> None:
    program = tmp_path / "short"
    program.write_bytes(_asks_in_32_bits())
    program.chmod(0o755)
    if subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, check=False).stdout != b"Go? ":
        pytest.skip("NOT TESTED HERE: the kernel runs no 32-bit programs")

    told = start(str(program), mark=b"Go? ").steadily(True)

    assert (told.is_exact, told.reader) == (True, "short: read")


def _asks_in_32_bits() -> bytes:
    """The smallest program that writes `Go? ` and reads a byte: an ELF header, one segment, its code."""
    base, start = 0x08048000, 52 + 32
    text = base + start + 39
    code = b"\xb8\x04\0\0\0\xbb\x01\0\0\0\xb9" + struct.pack("<I", text) + b"\xba\x04\0\0\0\xcd\x80"  # write(1, text, 4)
    code += b"\xb8\x03\0\0\0\x31\xdb\xcd\x80"  # read(0, text, 4)
    code += b"\xb8\x01\0\0\0\xcd\x80"  # exit
    assert len(code) == 38
    code += b"\x90Go? "
    size = start + len(code)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + start, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    return header + struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 7, 0x1000) + code


def test_a_reader_in_a_second_thread_is_seen(start) -> None:
    code = "import threading; t = threading.Thread(target=input, args=('Name: ',)); t.start(); t.join()"

    assert start(PYTHON, "-c", code, mark=b"Name: ").evidence(True).reading is True


@pytest.mark.parametrize(
    "code",
    [
        "printf 'Remove old files? [y/N] '; sleep 60",
        "printf 'Go? '; read x < <(sleep 60)",
        "printf 'Go? '; while :; do :; done",
        "printf 'Go? '; python3 -c 'import select; select.select([], [], [], 60)'",
        "set -m; (read -p 'Go? ' x) & sleep 60",
        "printf 'Go? '; exec </dev/null; sleep 60",
    ],
)
def test_a_line_that_nobody_reads_is_not_waited_on(start, code) -> None:
    assert start("bash", "-c", code, mark=b"? ").steadily(False).reading is False


@pytest.mark.skipif(shutil.which("script") is None, reason="NOT TESTED HERE: there is no script(1)")
@pytest.mark.parametrize(("inner", "is_read"), [("read -p Inner? x", True), ("printf Inner?; sleep 60", False)])
def test_behind_a_relay_the_inner_terminal_tells(start, inner, is_read) -> None:
    run = start("script", "-qc", f'bash -c "{inner}"', "/dev/null", mark=b"Inner?")

    told = run.steadily(is_read)

    assert told.reading is is_read
    assert told.reader.startswith("script: poll")


def test_an_agent_of_another_session_that_reads_blind_is_found(start) -> None:
    agent = "import os, sys, termios; os.setsid(); fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); \
mode = termios.tcgetattr(fd); mode[3] &= ~termios.ECHO; termios.tcsetattr(fd, termios.TCSANOW, mode); \
os.write(fd, b'Passphrase: '); os.read(fd, 64)"
    start_agent = f"subprocess.run([sys.executable, '-c', {agent!r}, os.ttyname(0)], stdin=subprocess.DEVNULL)"
    code = f"import subprocess, sys, os; {start_agent}"

    told = start(PYTHON, "-c", code, mark=b"Passphrase: ").evidence(True)

    assert told.reading is True
    assert told.hides_typing is True


def test_what_the_reader_of_the_last_look_does_is_asked_anew(start) -> None:
    run = start("bash", "-c", "read -p 'Go? ' x; echo gone on; sleep 60", mark=b"Go? ")
    assert run.evidence(True).reading is True

    os.write(run.fd, b"y\n")
    run.until(b"gone on")

    assert run.steadily(False).reading is False


def test_a_run_of_many_processes_is_looked_at_for_a_bounded_time_and_not_denied_a_reader(start) -> None:
    run = start("bash", "-c", "for i in {1..400}; do sleep 60 & done; echo started; sleep 60 | cat", mark=b"started")

    spans = []
    for _ in range(5):
        began = time.thread_time()
        told = run.witness.look()
        spans.append(time.thread_time() - began)

    assert told.reading is not True
    assert min(spans) < 5 * SEARCH_MAX_S


def test_a_program_of_which_nothing_is_left_is_waited_on_by_nobody(start) -> None:
    run = start("true", mark=b"")
    os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)

    assert run.witness.look().reading is not True


def test_a_descriptor_that_is_no_terminal_tells_nothing() -> None:
    reader, writer = os.pipe()
    try:
        assert Witness(reader, os.getpid()).look() == Evidence()
    finally:
        os.close(reader)
        os.close(writer)


def test_an_architecture_without_known_calls_degrades_to_the_terminal_s_modes(monkeypatch, start) -> None:
    monkeypatch.setattr(waiting, "_CALLS", {})
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "60"])
    try:
        blind = Witness(fd, pid)

        assert not blind.knows_readers
        assert blind.look() == Evidence(canonical=True, echo=True)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def test_another_user_s_processes_make_it_unknown_and_not_nobody(start) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED HERE: needs root to become another user")
    run = start("bash", "-c", "read -p 'Go? ' x", mark=b"Go? ")
    assert run.evidence(True).reading is True
    code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from sandboxd.runner.witness import Witness
os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
told = Witness({run.fd}, {run.pid}).look()
print(told.reading, told.canonical)
"""
    told = subprocess.run([PYTHON, "-c", code], pass_fds=[run.fd], capture_output=True, text=True, check=False)

    assert told.stdout.split() == ["None", "True"], told.stderr


def test_a_reader_that_ends_under_the_look_is_no_reader_and_no_fault(start):
    """Whoever ends cannot be looked at any more, which the kernel says as a refusal to all but root."""
    for _ in range(5):
        run = start(PYTHON, "-c", "input('Sure? ')", mark=b"Sure? ")
        assert run.evidence(True).reading is True
        os.write(run.fd, b"\n")

        assert run.evidence(False).reading in (False, None)
        for _ in range(20):
            assert run.witness.look().reading is not True
