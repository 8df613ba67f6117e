"""How does one run start?

By fork and exec in the single-threaded spawner: only there is it safe to run Python between the two, and only there does
PR_SET_PDEATHSIG mean the death of the process (it means that of the forking thread). The child becomes what the plan says,
step by step, and tells the step that failed through a pipe which exec closes; until then nothing counts as started.

At the levels above `none` the child also takes its rights away (`isolation.confinement`). Where there is a cgroup it is born in
there, which ptyprocess cannot do with a child; at `strict` it is the child of that child which becomes the program (`second`).

umask is 022: what a run writes into the workspace is for the people who share the workspace, who often have another user id
than the daemon. A program that writes secrets sets its own mode.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import stat
import termios
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NoReturn

import attrs
from ptyprocess import PtyProcess

from sandboxd.policy.model import LaunchPlan
from sandboxd.runner import cgroup, handover, linux
from sandboxd.runner.isolation import entry
from sandboxd.runner.isolation.confinement import Confinement
from sandboxd.runner.isolation.sandbox import Sandbox
from sandboxd.runner.protocol import SpawnFailed
from sandboxd.values import frozen

ROWS_AND_COLUMNS: Final = (24, 80)  # what a terminal has when nobody sized it (VT100); the detector reckons with the same
UMASK: Final = 0o022
_FD_MAX: Final = 1 << 20  # fs.nr_open's default: no descriptor has a higher number
_EXEC_FAILED: Final = 127
_SIGNALS: Final = tuple(sorted(signal.valid_signals()))  # Python asks the kernel anew each time

Reason = Literal["program-missing", "exec-failed", "start-failed"]
Rlimits = tuple[tuple[int, int], ...]


@frozen
class _Begun:
    """A child that was forked, and this side's ends of its streams."""

    pid: int
    terminal: int | None = None
    stdout: int | None = None
    stderr: int | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(fd for fd in (self.terminal, self.stdout, self.stderr) if fd is not None)


@frozen
class Launched:
    """A child that has exec'd. `fds` belong to the caller and go to the daemon: pidfd, then the terminal, or the two pipes."""

    pid: int
    fds: tuple[int, ...]


def launch(
    plan: LaunchPlan,
    *,
    rlimits: Rlimits,
    folder_fd: int,
    cgroup_fd: int | None,
    handed: tuple[int, ...] = (),
    confinement: Confinement | None = None,
) -> Launched | SpawnFailed:
    """Start the plan's program in the checked folder and return once exec has happened, or say why it has not."""
    if why := _why_no_program(plan.program):
        return _failed("program-missing", f"cannot start `{plan.program}`: {why}")
    fds: list[int] = []
    try:
        failure_read, failure_write = fds[:] = os.pipe()
        tell_read, tell_write = os.pipe()
    except OSError as error:
        _close(fds)
        return _failed("start-failed", f"cannot start `{plan.program}`: {_text(error)}")
    # Python ignores SIGPIPE and SIGXFSZ, and exec hands that down: `yes | head` would never end.
    signals = tuple(number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_DFL)
    become = _Become(
        program=plan.program,
        argv=plan.argv,
        env=plan.env,
        rlimits=rlimits,
        signals=signals,
        folder=plan.cwd,
        folder_fd=folder_fd,
        cgroup_fd=cgroup_fd,
        failure_fd=failure_write,
        tell_fd=tell_write,
        spawner_pid=os.getpid(),
        handed=handed,
        confinement=confinement,
    )
    # One that arrives between fork and exec would run the spawner's handler in the child. All others are left: Python makes an
    # enum of each signal of a mask, also in the child, where that copies pages.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        started = _on_terminal(become) if plan.terminal else _on_pipes(become)
    except OSError as error:
        return _failed("start-failed", f"cannot start `{plan.program}`: {_text(error)}")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _close((failure_write, tell_write))
        failure = _read_all(failure_read)  # the end: exec has closed the child's copy
        told = _read_all(tell_read)
        _close((failure_read, tell_read))
    if become.takes_two:
        os.waitpid(started.pid, 0)  # the first child, which has told its own child's pid
        if told:
            started = attrs.evolve(started, pid=int(told))
        elif not failure:
            failure = f"start-failed\0cannot start `{plan.program}`: it ended on its way into its surroundings".encode()
    if failure:
        if told or not become.takes_two:
            os.waitpid(started.pid, 0)
        _close(started.fds)
        reason, _, message = failure.decode("utf-8", "replace").partition("\0")
        return SpawnFailed(reason, message)
    try:
        return Launched(started.pid, (os.pidfd_open(started.pid), *started.fds))
    except OSError as error:  # without a pidfd it cannot be watched
        _close(started.fds)
        _end(started.pid)
        return _failed("start-failed", f"cannot start `{plan.program}`: {_text(error)}")


@frozen
class _Become:
    """Everything the child needs, ready before the fork."""

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    rlimits: Rlimits
    signals: tuple[int, ...]
    folder: str
    folder_fd: int
    cgroup_fd: int | None
    failure_fd: int
    tell_fd: int
    spawner_pid: int
    handed: tuple[int, ...]
    confinement: Confinement | None

    @property
    def fds(self) -> tuple[int, ...]:
        """What the child needs until it has exec'd."""
        inside = () if self.confinement is None else self.confinement.fds
        mine = (self.folder_fd, self.cgroup_fd, self.failure_fd, self.tell_fd)
        return tuple(fd for fd in (*mine, *self.handed, *inside) if fd is not None)

    @property
    def takes_two(self) -> bool:
        """Whether it is the forked child's own child that becomes the program (`second`), which is then born in the cgroup."""
        return self.sandbox is not None

    @property
    def sandbox(self) -> Sandbox | None:
        return None if self.confinement is None else self.confinement.sandbox

    def fork(self, enter: Callable[[], None]) -> int:
        """The pid of a child that does `enter`, and then this. `OSError`."""
        pid, is_inside = linux.fork(None if self.takes_two else self.cgroup_fd)
        if pid == 0:
            self(enter, is_inside=is_inside)
        return pid

    def __call__(self, enter: Callable[[], None] = lambda: None, *, is_inside: bool = True) -> NoReturn:
        """Turn this forked child into the program, or its own child, and end. `is_inside`: it has not to move to its cgroup."""
        what: str = "set up the process"
        reason: Reason = "start-failed"
        try:
            self._end_with_the_spawner()
            enter()
            terminal = os.isatty(0)
            writable: Sequence[int] = ()
            if self.sandbox is not None:
                what = "enter its sandbox"
                network = self.confinement is not None and self.confinement.view.network
                entry.join(self.sandbox, network=network, cgroup_fd=self.cgroup_fd, tell_fd=self.tell_fd, terminal=terminal)
            elif self.cgroup_fd is not None and not is_inside:
                what = "enter its cgroup"
                cgroup.move_here(self.cgroup_fd)
            if self.confinement is not None:
                what = "put in place what it may write"
                writable = self.confinement.writable()
            what = "reset its signals"
            for number in self.signals:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            what = "enter its working directory"
            confinement = self.confinement
            os.fchdir(self.folder_fd if confinement is None else confinement.folder(self.folder, self.folder_fd))
            what = "set its limits"
            os.umask(UMASK)
            for kind, value in self.rlimits:
                resource.setrlimit(kind, (value, value))
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            what = "take its rights away"
            if confinement is not None:
                confinement.bind(writable)
            os.closerange(handover.place(self.handed), self.failure_fd)
            os.closerange(self.failure_fd + 1, _FD_MAX)
            if confinement is not None:
                confinement.filter_calls()
            what, reason = "execute it", "exec-failed"
            os.execve(self.program, self.argv, self.env)  # no shell anywhere, which is the point
        except BaseException as error:
            why = _text(error) if isinstance(error, OSError) else str(error)
            message = f"{reason}\0cannot start `{self.program}`: cannot {what}: {why}"
            os.write(self.failure_fd, message.encode("utf-8", "replace"))
        finally:
            os._exit(_EXEC_FAILED)

    def _end_with_the_spawner(self) -> None:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.spawner_pid:  # it died before the line above could count
            os._exit(_EXEC_FAILED)


def _on_terminal(become: _Become) -> _Begun:
    """A child that leads its own session on a private pty."""
    if become.cgroup_fd is not None and not become.takes_two:
        return _born_on_terminal(become)
    try:
        process = PtyProcess.spawn(
            [become.program],
            dimensions=ROWS_AND_COLUMNS,
            preexec_fn=become,  # it never returns: argv and environment go to exec exactly as the plan has them
            pass_fds=become.fds,
        )
    except BaseException:
        if os.getpid() != become.spawner_pid:  # raised in the child, before `become`: it must not go on as a second spawner
            os._exit(_EXEC_FAILED)
        raise
    try:
        return _Begun(process.pid, terminal=os.dup(process.fd))
    except OSError:
        _end(process.pid)
        raise
    finally:
        # From here on ptyprocess owns nothing: its `close` sleeps, and its `__del__` would kill the child and wait for it.
        process.fileobj.close()
        process.closed = True
        process.fd = -1


def _born_on_terminal(become: _Become) -> _Begun:
    """The same, for one that is born in its cgroup: a second fork, from ptyprocess's child, took as long as the first."""
    master, slave = os.openpty()

    def enter() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in range(3):
            os.dup2(slave, number, inheritable=True)

    try:
        termios.tcsetwinsize(master, ROWS_AND_COLUMNS)
        return _Begun(become.fork(enter), terminal=master)
    except OSError:
        os.close(master)
        raise
    finally:
        os.close(slave)


def _on_pipes(become: _Become) -> _Begun:
    """A child that leads its own session without a terminal: nothing to read, two pipes to write to."""
    fds: list[int] = []
    try:
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        fds.append(null)
        stdout, stdout_write = os.pipe()
        fds += [stdout, stdout_write]
        stderr, stderr_write = os.pipe()
        fds += [stderr, stderr_write]

        def enter() -> None:
            os.setsid()
            for number, fd in enumerate((null, stdout_write, stderr_write)):
                os.dup2(fd, number, inheritable=True)

        pid = become.fork(enter)
    except OSError:
        _close(fds)
        raise
    _close((null, stdout_write, stderr_write))
    return _Begun(pid, stdout=stdout, stderr=stderr)


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _read_all(fd: int) -> bytes:
    data = b""
    while chunk := os.read(fd, 4096):
        data += chunk
    return data


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _why_no_program(program: str) -> str | None:
    if not Path(program).is_absolute():
        return "its path is not absolute"
    try:
        found = Path(program).stat()
    except (OSError, ValueError) as error:
        return _text(error) if isinstance(error, OSError) else str(error)
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if not os.access(program, os.X_OK):
        return "it is not executable for the daemon's user"
    return None


def _failed(reason: Reason, message: str) -> SpawnFailed:
    return SpawnFailed(reason, message)


def _text(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
