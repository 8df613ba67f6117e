"""Does a cgroup here end what is in it, and which of its limits are kept?

A child is put into one, forks and ignores what it can, and is killed by one write. Each controller that is delegated is then
met by a child that asks for too much: a returned 0 counts for nothing. Forks, so it is for a process with one thread.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sandboxd.runner import cgroup
from sandboxd.values import frozen

_CHILD_S: Final = 10.0
_MEMORY_BYTES: Final = 16 * 1024 * 1024
_BURN_S: Final = 0.02


@frozen
class Contained:
    """What was proved: that `cgroup.kill` kills, or `why_not`; and the controllers whose limits a child has met."""

    why_not: str = ""
    controllers: frozenset[str] = frozenset()


def prove(parent: str | None) -> Contained:
    """Make a cgroup in `parent` (None: in this process's own) and try it; nothing of it is left."""
    base = cgroup.make_base(parent)
    if isinstance(base, cgroup.NoCgroup):
        return Contained(base.why)
    try:
        delegated = cgroup.use_controllers(base)
        if why := _kills(base):
            return Contained(why)
        tests: Mapping[str, Callable[[Path], bool]] = {"memory": _keeps_memory, "pids": _keeps_pids, "cpu": _keeps_cpu}
        return Contained(controllers=frozenset(name for name in delegated if tests[name](base)))
    except OSError as error:
        return Contained(f"cannot use a cgroup in `{base.parent}`: {(error.strerror or str(error)).lower()}")
    finally:
        cgroup.kill(base)
        cgroup.remove(base)


def _kills(base: Path) -> str:
    def stay() -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
        time.sleep(_CHILD_S)

    run = cgroup.make_run(base, "kill", {})
    child = _start(run, stay)
    cgroup.kill(run)
    status = _wait(child)
    if status != -signal.SIGKILL:
        return f"nothing is enforced: a child outlived cgroup.kill (status {status})"
    deadline = time.monotonic() + _CHILD_S
    while not cgroup.remove(run):
        if time.monotonic() > deadline:
            return "nothing is enforced: a child's child outlived cgroup.kill"
        time.sleep(0.005)
    return ""


def _keeps_memory(base: Path) -> bool:
    run = cgroup.make_run(base, "memory", {"memory.max": str(_MEMORY_BYTES), "memory.swap.max": "0"})
    return _wait(_start(run, lambda: bytes(4 * _MEMORY_BYTES).count(1))) == -signal.SIGKILL


def _keeps_pids(base: Path) -> bool:
    def fork() -> None:
        try:
            if os.fork() == 0:
                os._exit(0)
        except BlockingIOError:
            os._exit(3)

    return _wait(_start(cgroup.make_run(base, "pids", {"pids.max": "1"}), fork)) == 3


def _keeps_cpu(base: Path) -> bool:
    def burn() -> None:
        while time.process_time() < _BURN_S:
            pass

    run = cgroup.make_run(base, "cpu", {"cpu.max": "1000 10000"})  # a tenth of a processor: it takes 0.2 s
    _wait(_start(run, burn))
    throttled = dict(line.split() for line in (run / "cpu.stat").read_text().splitlines()).get("nr_throttled", "0")
    return int(throttled) > 0


def _start(run: Path, act: Callable[[], object]) -> int:
    """A child that has entered the cgroup before it acts."""
    procs = cgroup.open_procs(run)
    entered, tell = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(int(_CHILD_S))
                os.write(procs, b"0")
                os.write(tell, b".")
                act()
            finally:
                os._exit(0)
        os.close(tell)
        tell = -1
        os.read(entered, 1)
        return child
    finally:
        for fd in (procs, entered, tell):
            if fd >= 0:
                os.close(fd)


def _wait(child: int) -> int:
    """Its status, as `os.waitstatus_to_exitcode` tells it; one that does not end is killed."""
    pidfd = os.pidfd_open(child)
    try:
        if not select.select([pidfd], [], [], _CHILD_S)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.waitpid(child, 0)
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(pidfd)
