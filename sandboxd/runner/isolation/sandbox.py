"""How does bubblewrap make the namespaces of one run, and who keeps them alive?

bubblewrap starts `cat` in fresh user, mount, pid, network, IPC and UTS namespaces; what it echoes shows that all mounts stand.
The run does not go through bubblewrap: the spawner's forked child joins the namespaces (`entry`) and becomes the program. So
its exit status, signals and terminal are its own, Landlock and the filter are put on as at `standard`, and no second
interpreter is started inside, which would cost 15 to 20 ms.

`cat` ends with the spawner (its input is a pipe of the spawner's, and bubblewrap dies with its parent); with it ends the pid
namespace, and every process in it, which the kernel does at once.

No mount's destination is ever looked up below the workspace: bubblewrap follows symlinks there (CVE-2026-87766). What may be
written is bound by descriptor to `SHELF`, and moved to its place by descriptor afterwards (`entry`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from sandboxd.runner.isolation import places
from sandboxd.runner.isolation.levels import BUBBLEWRAP

CURE: Final = (
    "install bubblewrap with --bind-fd (0.10 or newer, or Debian 12's), on a host where users may make user namespaces; "
    "in a unit, with its drop-in for bubblewrap"
)
SHELF: Final = "/.shelf"  # folders that wait to be moved to their place
_READY_S: Final = 5.0  # 5 ms on an idle machine
_CATS: Final = ("/usr/bin/cat", "/bin/cat")
_MESSAGE_MAX_BYTES: Final = 4096


class Unusable(Exception):
    """bubblewrap did not make the namespaces; the message says why, in its own words where it had some."""


@attrs.frozen
class Bound:
    """A folder that was opened and checked, and where a run finds it (an absolute path)."""

    fd: int
    at: str


@attrs.frozen
class View:
    """What a run may reach. `read`: more of the host, by the operator's word; `tmp_bytes`: the size of a /tmp of its own."""

    program: str
    workspace: Bound
    writable: tuple[Bound, ...] = ()
    read: tuple[str, ...] = ()
    network: bool = False
    tmp_bytes: int = 64 * 1024 * 1024


@attrs.frozen
class Sandbox:
    """Namespaces that wait for a run. `pid` is bubblewrap's, a child of this process; `first_fd` a pidfd of their pid 1.

    `life_fd`: they end when this descriptor is closed.
    """

    pid: int
    first_fd: int
    life_fd: int

    def close(self) -> None:
        """End the namespaces, and everything in them. Reaping is the caller's."""
        for fd in (self.first_fd, self.life_fd):
            os.close(fd)


def make(view: View, *, bubblewrap: str = BUBBLEWRAP, cgroup_fd: int | None = None, marker: str = "") -> Sandbox:
    """Fresh namespaces with that view; `Unusable`. `marker`: one variable for the environment, to know the processes by."""
    fds: list[int] = []
    try:
        child_in, life = os.pipe()
        fds += [child_in, life]
        echo, child_out = os.pipe()
        fds += [echo, child_out]
        said, child_err = os.pipe()
        fds += [said, child_err]
        told, child_info = os.pipe()
        fds += [told, child_info]
        child_words, words = os.pipe()
        fds += [child_words, words]
        # Through a pipe, which holds 64 KiB: what stands on the command line can be read inside, and names the host's folders.
        told_words = b"".join(os.fsencode(word) + b"\0" for word in _arguments(view, child_info))
        os.set_blocking(words, False)
        if os.write(words, told_words) < len(told_words):
            raise OSError("`[isolation] read` names too much")
        arguments = [bubblewrap, "--args", str(child_words), "--", cat()]
        passed = (child_words, child_info, view.workspace.fd, *(bound.fd for bound in view.writable))
        pid = os.fork()
    except OSError as error:
        _close(fds)
        raise Unusable(_text(error)) from error
    if pid == 0:
        _become(arguments, (child_in, child_out, child_err), passed, cgroup_fd, marker)
    _close((child_in, child_out, child_err, child_info, child_words, words))
    try:
        os.write(life, b".")
        if not _is_ready(echo):
            raise Unusable(_last_words(said) or f"it was not ready within {_READY_S:.0f} s")
        first = json.loads(os.read(told, _MESSAGE_MAX_BYTES))["child-pid"]
        return Sandbox(pid, os.pidfd_open(first), life)
    except (Unusable, OSError, ValueError, KeyError) as error:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(life)
        if isinstance(error, Unusable):
            raise
        raise Unusable(_text(error) if isinstance(error, OSError) else str(error)) from error
    finally:
        _close((echo, said, told))


def _arguments(view: View, info_fd: int) -> list[str]:
    # No `--hostname`: a unit's ProtectHostname= forbids it, and the host's name is nothing that is kept from a run.
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if view.network else ["--unshare-net"]
    words += ["--die-with-parent", "--cap-drop", "ALL", "--info-fd", str(info_fd)]
    words += ["--ro-bind", places.SYSTEM, places.SYSTEM]
    for top in places.TOP:
        path = Path(top)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), top]
        elif path.is_dir():
            words += ["--ro-bind", top, top]
    for name in places.etc(network=view.network):
        words += ["--ro-bind-try", name, name]
    words += ["--proc", "/proc"]
    for name in (*places.DEVICES_READ, *places.DEVICES_WRITE):
        words += ["--dev-bind-try", name, name]
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        words += ["--symlink", f"/proc/self/{target}", f"/dev/{name}"]
    words += ["--size", str(view.tmp_bytes), "--tmpfs", places.TMP, "--chmod", "1777", places.TMP]
    for name in view.read:
        words += ["--ro-bind-try", name, name]
    if not places.is_seen(os.path.realpath(view.program), view.read):
        words += ["--ro-bind", os.path.realpath(view.program), view.program]
    words += ["--ro-bind-fd", str(view.workspace.fd), view.workspace.at]
    for number, bound in enumerate(view.writable):
        words += ["--bind-fd", str(bound.fd), f"{SHELF}/{number}"]
    return [*words, "--remount-ro", "/"]


def _become(
    arguments: Sequence[str], streams: Sequence[int], passed: Sequence[int], cgroup_fd: int | None, marker: str
) -> None:
    """Turn this forked child into bubblewrap, which is told nothing of the daemon's environment."""
    try:
        os.setsid()
        if cgroup_fd is not None:
            os.write(cgroup_fd, b"0")
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what the spawner ignores stays ignored: the stop ladder is for the run
        for number, fd in enumerate(streams):
            os.dup2(fd, number, inheritable=True)
        for fd in passed:
            os.set_inheritable(fd, True)
        os.chdir("/")
        name, _, value = marker.partition("=")
        os.execve(arguments[0], list(arguments), {name: value} if name else {})
    except BaseException as error:
        os.write(2, f"cannot execute `{arguments[0]}`: {error.strerror if isinstance(error, OSError) else error}".encode())
    finally:
        os._exit(127)


def _is_ready(echo: int) -> bool:
    """Whether the echo comes, which it does when everything is mounted."""
    poll = select.poll()
    poll.register(echo, select.POLLIN)
    deadline = time.monotonic() + _READY_S
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            return bool(os.read(echo, 1))
    return False


def _last_words(said: int) -> str:
    poll = select.poll()
    poll.register(said, select.POLLIN)
    if not poll.poll(0):
        return ""
    text = os.read(said, _MESSAGE_MAX_BYTES).decode("utf-8", "replace").strip()
    return " ".join(text.split()).removeprefix("bwrap: ")


def cat() -> str:
    """A program that waits for its input, on every host."""
    return next((path for path in _CATS if Path(path).exists()), _CATS[0])


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def _text(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
