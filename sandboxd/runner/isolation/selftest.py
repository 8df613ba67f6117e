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
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, assert_never

import attrs

from sandboxd.policy.model import Isolation
from sandboxd.runner import linux, waiting
from sandboxd.runner.isolation import containment, entry, landlock, places, sandbox, seccomp
from sandboxd.runner.isolation.confinement import Confinement
from sandboxd.runner.isolation.levels import BUBBLEWRAP, LAYERS, Ability, Host, Kept, Layer, resolve
from sandboxd.runner.isolation.sandbox import Bound, Sandbox, Unusable, View

_CHILD_S: Final = 10  # what a child of a test may take before SIGALRM ends it; it takes about a millisecond
_FILE_BYTES: Final = 4096
_PIDS_INSIDE: Final = 16  # fresh namespaces count from 1

Step = Callable[[], str]  # in the child: why the layer does not hold, or nothing


def probe_for(level: Isolation, *, bubblewrap: str = BUBBLEWRAP) -> Host:
    """Test what that level needs, and bubblewrap only where `standard` cannot be kept without."""
    if level == "none":
        return Host()
    host = probe(("limits", "no-new-privileges", "seccomp", "landlock"))
    if level == "standard" and resolve("standard", host) == Kept("standard"):
        return host
    return attrs.evolve(host, abilities={**host.abilities, "bubblewrap": self_test("bubblewrap", bubblewrap=bubblewrap)})


def probe(layers: tuple[Layer, ...] = LAYERS, *, bubblewrap: str = BUBBLEWRAP, cgroup_parent: str | None = None) -> Host:
    """Test these layers; what is left out counts as not working."""
    found = {layer: self_test(layer, bubblewrap=bubblewrap, cgroup_parent=cgroup_parent) for layer in layers}
    try:
        version = landlock.abi()
    except OSError:
        version = 0
    return Host(found, version)


def self_test(layer: Layer, *, bubblewrap: str = BUBBLEWRAP, cgroup_parent: str | None = None) -> Ability:
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
        case "bubblewrap":
            return _bubblewrap(bubblewrap)
        case "concealment":
            return _told(layer, _concealment(), "a process that hides is closed to others of its user")
        case "witness":
            return _told(layer, _witness(), "a process that waits for input is seen")
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
        program = seccomp.filter_for(machine, network=False, alone=False)
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
    found = containment.prove(parent)
    if found.why_not:
        cure = "systemd: Delegate=memory pids cpu; elsewhere a cgroup2 directory that the daemon's user may write"
        return Ability("cgroup", works=False, reason=found.why_not, cure=cure)
    told = f"ends whole trees; limits kept: {', '.join(sorted(found.controllers)) or 'none'}"
    return Ability("cgroup", works=True, detail=told, controllers=found.controllers)


def _bubblewrap(path: str) -> Ability:
    """Make namespaces, have a child join them, and look around from inside."""
    if not os.access(path, os.X_OK):
        return Ability("bubblewrap", works=False, reason=f"there is no `{path}`", cure=sandbox.CURE)
    with tempfile.TemporaryDirectory(prefix="sandboxd-self-test-") as folder, _own_file() as secret:
        (Path(folder) / "own").mkdir()
        fds = [os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for name in (folder, f"{folder}/own")]
        view = View("/usr/bin/env", Bound(fds[0], folder), (Bound(fds[1], f"{folder}/own"),))
        try:
            made = sandbox.begin(view, bubblewrap=path)
        except Unusable as error:
            _close(fds)
            return Ability("bubblewrap", works=False, reason=str(error), cure=sandbox.CURE)
        told, tell = os.pipe()
        try:
            confinement = Confinement("strict", view, 1, seccomp.Filter(b""), sandbox=made)
            why = _in_child(lambda: _look_around(made, confinement, folder, secret, tell))
        finally:
            os.close(tell)
            _reap(os.read(told, 32))
            made.undo()
            _close((told, *made.news_fds, *fds))
    return _told("bubblewrap", why, path, sandbox.CURE)


def _look_around(made: Sandbox, confinement: Confinement, folder: str, secret: str, tell: int) -> str:
    """Join the namespaces and try what must not be possible there."""
    try:
        entry.join(made, network=False, cgroup_fd=None, tell_fd=tell, terminal=False)
    except Unusable as error:
        return str(error)
    writable = confinement.writable()
    signal.alarm(_CHILD_S)  # the second child has none yet
    if (seen := [name for name in os.listdir("/proc") if name.isdigit() and int(name) > _PIDS_INSIDE]) or len(writable) != 1:
        return f"nothing is enforced: a child sees processes outside ({len(seen)})"
    for what, act, code in (
        ("open a file outside", lambda: os.close(os.open(secret, os.O_RDONLY)), errno.ENOENT),
        ("write where it may only read", lambda: Path(folder, "new").touch(), errno.EROFS),
    ):
        if why := _must_fail(what, act, code):
            return why
    if sorted(os.listdir("/sys") if Path("/sys").exists() else []):
        return "nothing is enforced: a child sees /sys"
    Path(folder, "own", "new").touch()  # what must go on working
    Path(places.TMP, "new").touch()
    return ""


def _concealment() -> str:
    """One child hides, another one of the same user tries to look into it."""
    ready, hide = os.pipe()
    hidden = os.fork()
    if hidden == 0:
        try:
            linux.prctl(linux.PR_SET_DUMPABLE, 0)
            os.write(hide, b".")
            signal.alarm(_CHILD_S)
            signal.pause()
        finally:
            os._exit(0)
    try:
        os.close(hide)
        os.read(ready, 1)

        def look() -> str:
            if os.geteuid() == 0:
                return ""  # root sees everything: that is why the daemon refuses to run as root
            for name in ("environ", "mem"):
                if why := _must_fail(
                    f"open another's {name}", partial(os.open, f"/proc/{hidden}/{name}", os.O_RDONLY), errno.EACCES
                ):
                    return why
            return ""

        return _in_child(look)
    finally:
        os.close(ready)
        os.kill(hidden, signal.SIGKILL)
        os.waitpid(hidden, 0)


def _witness() -> str:
    """A child waits for input, and is asked what it waits for."""
    if why := waiting.why_not_here():
        return why
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(read, 0)
            os.closerange(3, write + 1)
            os.execv(sandbox.cat(), ["cat"])
        finally:
            os._exit(127)
    os.close(read)
    try:
        deadline = time.monotonic() + _CHILD_S
        while time.monotonic() < deadline:
            try:
                found = waiting.wait_of(child, child)
            except waiting.Unreadable:
                return "another process of the same user may not be looked at"
            if found is not None and found.call == "read":
                return ""
            time.sleep(0.001)
        return "a process that waits for input was not seen waiting"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(write)


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


def _reap(told: bytes) -> None:
    """The second child, which is ours where this process is a subreaper."""
    with contextlib.suppress(ChildProcessError, ValueError):
        os.waitpid(int(told), 0)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


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
