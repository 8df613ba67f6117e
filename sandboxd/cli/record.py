"""What did a program show, when did it wait, and what did the kernel say meanwhile?

For bug reports about questions that were missed or made up: runs a command on a terminal of its own, passes it on to the one
that this was typed in, and writes an asciicast (version 2) with, beside it, the terminal's modes and whether somebody waited
for input at each change. What is typed is not written down unless that is asked for.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import attrs
import click

from sandboxd.cli.console import Console
from sandboxd.cli.exits import Failure, signal_exit
from sandboxd.cli.options import json_option
from sandboxd.runner.witness import Witness

_SAMPLE_S: Final = 0.03
_READ_MAX: Final = 65536
_DRAIN_S: Final = 0.3
_COLS, _ROWS = 80, 24  # what a run of the daemon has


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--out", "-o", type=click.Path(path_type=Path, dir_okay=False), default=Path("record.cast"), show_default=True)
@click.option("--input", "with_input", is_flag=True, help="Write down what is typed as well, passwords and all.")
@json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def record(out: Path, with_input: bool, as_json: bool, command: Sequence[str]) -> int:
    """Record COMMAND's terminal to a .cast file, and what the kernel said to a .json file beside it.

    What is typed is left out (--input keeps it); what the program prints, its echo included, is in the recording: read it
    before you send it. With --json it goes on to stderr, and stdout says where the files are. See: sandboxd explain record.cast
    """
    console = Console.of_process()
    if out.suffix != ".cast":
        raise Failure(f"cannot record to `{out}`: its name must end in .cast")
    if shutil.which(command[0]) is None:
        raise Failure(f"cannot record `{command[0]}`: there is no such program")
    with _create(out) as cast:
        tape = Tape(cast, with_input=with_input)
        code = _run(command, tape, shown_on=2 if as_json else 1)
    truth = {**tape.truth(), "command": " ".join(command), "exit": code, "cols": _COLS, "rows": _ROWS}
    with _create(out.with_suffix(".json")) as beside:
        json.dump(truth, beside, indent=1)
    if as_json:
        files = {"recording": str(out), "truth": str(out.with_suffix(".json"))}
        console.object({"schema": "sandboxd.record/1", **files, "exit": code})
        return code
    console.talk(f"Recorded to {out} and {out.with_suffix('.json')}. Read them before you send them.")
    return code


@attrs.define(eq=False)
class Tape:
    """An asciicast in the making, and what changed meanwhile."""

    cast: IO[str]
    with_input: bool
    began: float = attrs.field(factory=time.monotonic)
    modes: list[list[float | int]] = attrs.field(factory=list)
    reading: list[list[float | int | None]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        """The header."""
        self._line({"version": 2, "width": _COLS, "height": _ROWS, "timestamp": int(time.time())})

    def wrote(self, data: bytes) -> None:
        """The program's output."""
        self._line([self._now(), "o", data.decode("utf-8", "surrogateescape")])

    def typed(self, data: bytes) -> None:
        """What a person typed; without leave only that something was, and whether it ended in Enter."""
        enter = data[-1:].decode() if data[-1:] in (b"\r", b"\n") else ""
        self._line([self._now(), "i", data.decode("utf-8", "surrogateescape") if self.with_input else f"*{enter}"])

    def sample(self, witness: Witness, fd: int) -> None:
        """What the kernel says now, where it differs from before."""
        told = witness.look()
        if told.canonical is None:
            return
        with contextlib.suppress(OSError, termios.error):
            isig = bool(termios.tcgetattr(fd)[3] & termios.ISIG)
            modes = [int(told.canonical), int(bool(told.echo)), int(isig)]
            if not self.modes or self.modes[-1][1:] != modes:
                self.modes.append([self._now(), *modes])
        reading = None if told.reading is None else int(told.reading)
        if not self.reading or self.reading[-1][1] != reading:
            self.reading.append([self._now(), reading])

    def truth(self) -> dict[str, Any]:
        """What stands beside the recording."""
        return {"duration": self._now(), "tty_timeline": self.modes, "blocked_timeline": self.reading}

    def _now(self) -> float:
        return round(time.monotonic() - self.began, 4)

    def _line(self, value: Any) -> None:
        self.cast.write(json.dumps(value) + "\n")


def _create(path: Path) -> IO[str]:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8")
    except OSError as error:
        raise Failure(f"cannot record to `{path}`: {os.strerror(error.errno or 0).lower()}") from None


def _run(command: Sequence[str], tape: Tape, *, shown_on: int) -> int:
    pid, master = os.forkpty()
    if pid == 0:
        try:
            os.execvp(command[0], list(command))
        finally:
            os._exit(127)
    size = _ROWS.to_bytes(2, sys.byteorder) + _COLS.to_bytes(2, sys.byteorder) + bytes(4)
    fcntl.ioctl(master, termios.TIOCSWINSZ, size)
    try:
        with _raw(sys.stdin.fileno()):
            _pass_on(pid, master, tape, shown_on)
    finally:
        os.close(master)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return signal_exit(-code) if code < 0 else code


def _pass_on(pid: int, master: int, tape: Tape, shown_on: int) -> None:
    """Between this terminal and the program's, until that has ended."""
    witness = Witness(master, pid)
    sources = [master, sys.stdin.fileno()]
    ends_at = float("inf")
    while time.monotonic() < ends_at:
        ready, _, _ = select.select(sources, [], [], _SAMPLE_S)
        tape.sample(witness, master)
        if ends_at == float("inf") and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            ends_at = time.monotonic() + _DRAIN_S
        if master in ready:
            try:
                data = os.read(master, _READ_MAX)
            except OSError:  # nobody holds the other end
                return
            tape.wrote(data)
            os.write(shown_on, data)
        if sys.stdin.fileno() in ready:
            data = os.read(sys.stdin.fileno(), _READ_MAX)
            if not data:
                sources.remove(sys.stdin.fileno())
                continue
            tape.typed(data)
            os.write(master, data)


@contextlib.contextmanager
def _raw(fd: int) -> Iterator[None]:
    """Each key goes to the program at once, where this is a terminal."""
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    tty.setraw(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
