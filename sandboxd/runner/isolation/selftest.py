"""Does that layer really hold on this host?

Each layer is put on a real child, which then tries what it must not be able to do. Only a refusal that the child itself has met
counts: a call that returns 0 while nothing is enforced has been seen in the wild.

Forks, so it is for a process with one thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, assert_never

from sandboxd.runner import cgroup, linux
from sandboxd.runner.isolation import landlock, seccomp
from sandboxd.runner.isolation.levels import LAYERS, Ability, Host, Layer

_CHILD_S: Final = 10  # what a child of a test may take before SIGALRM ends it; it takes about a millisecond
_FILE_BYTES: Final = 4096

Step = Callable[[], str]  # in the child: why the layer does not hold, or nothing


def probe(layers: tuple[Layer, ...] = LAYERS, *, cgroup_parent: str | None = None) -> Host:
    """Test these layers; what is left out counts as not working."""
    found = {layer: self_test(layer, cgroup_parent=cgroup_parent) for layer in layers}
    try:
        version = landlock.abi()
    except OSError:
        version = 0
    return Host(found, version)


def self_test(layer: Layer, *, cgroup_parent: str | None = None) -> Ability:
    """What this host can keep of one layer, proved by a real child."""
    match layer:
        case "limits":
            return _told(layer, _in_child(_limits), "core, open files, file size, memory of a process, processor time")
        case "no-new-privileges":
            return _told(layer, _in_child(_no_new_privileges), "no_new_privs")
        case "landlock":
            return _landlock()
        case "seccomp":
            return _seccomp()
        case "cgroup":
            return _cgroup(cgroup_parent)
        case "bubblewrap" | "concealment" | "witness":
            return Ability(layer, works=False, reason="it has no self-test yet")
        case _:
            assert_never(layer)


def _told(layer: Layer, why: str, detail: str, cure: str = "") -> Ability:
    return Ability(layer, works=False, reason=why, cure=cure) if why else Ability(layer, works=True, detail=detail)


def _landlock() -> Ability:
    try:
        version = landlock.abi()
    except OSError as error:
        return Ability("landlock", False, "", *landlock.why_not(error))

    with _own_file() as path:

        def step() -> str:
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            rules = landlock.Ruleset(version)
            rules.allow_path("/usr", landlock.RUN)
            rules.restrict_self()
            Path("/usr/bin/env").stat()  # knowing is not restricted
            if why := _must_fail("open a file outside", lambda: os.close(os.open(path, os.O_RDONLY)), errno.EACCES):
                return why
            if version < 6:
                return ""
            return _must_fail("signal its parent", lambda: os.kill(os.getppid(), 0), errno.EPERM)

        return _told("landlock", _in_child(step), f"ABI {version}")


def _seccomp() -> Ability:
    machine = os.uname().machine
    try:
        program = seccomp.filter_for(machine, network=False, by_name=False)
    except KeyError:
        return Ability("seccomp", works=False, reason=f"system calls of {machine} are not known", cure="x86_64 or aarch64")

    with _own_file() as path:

        def step() -> str:
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.apply(program)
            if why := _must_fail("make a socket", lambda: socket.socket(socket.AF_UNIX).close(), errno.EACCES):
                return why
            if why := _must_fail("change a mode by name", lambda: Path(path).chmod(0o600), errno.EPERM):
                return why
            for end in socket.socketpair():  # what must go on working
                end.close()
            return ""

        why = _in_child(step)
    cure = "a kernel with CONFIG_SECCOMP_FILTER, and no filter above that forbids `seccomp`"
    return _told("seccomp", why, f"{len(program) // 8} instructions", cure)


def _cgroup(parent: str | None) -> Ability:
    base = cgroup.make_base(parent)
    cure = "systemd: Delegate=memory pids cpu; elsewhere a cgroup2 directory that the daemon's user may write"
    if isinstance(base, cgroup.NoCgroup):
        return Ability("cgroup", works=False, reason=base.why, cure=cure)
    try:
        controllers = sorted(cgroup.use_controllers(base))
    finally:
        cgroup.remove(base)
    return Ability("cgroup", works=True, detail=f"controllers: {', '.join(controllers) or 'none'}")


def _limits() -> str:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(bytes(_FILE_BYTES))
        return _must_fail("write a longer file", lambda: file.write(b"x"), errno.EFBIG)


def _no_new_privileges() -> str:
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    return "" if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text() else "the kernel does not say that it is set"


def _must_fail(what: str, act: Callable[[], object], code: int) -> str:
    """Nothing when the act fails as it should, else what came instead."""
    try:
        act()
    except OSError as error:
        if error.errno == code:
            return ""
        return f"a child's try to {what} failed otherwise than it should: {os.strerror(error.errno or 0).lower()}"
    return f"nothing is enforced: a child could {what}"


@contextlib.contextmanager
def _own_file() -> Iterator[str]:
    """A file that this user can read."""
    with tempfile.NamedTemporaryFile(prefix="sandboxd-self-test-") as file:
        yield file.name


def _in_child(step: Step) -> str:
    """Why the layer does not hold, as a forked child has found it; nothing when it holds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_CHILD_S)
            try:
                why = step()
            except BaseException as error:
                why = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else repr(error)
            os.write(write, b"." + why.encode("utf-8", "replace")[:2000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not told:
        return f"the child that tried it ended without a word (status {status})"
    return told[1:].decode("utf-8", "replace")
