"""How does bubblewrap make the namespaces of one run, and who keeps them alive?

bubblewrap starts `cat` in fresh user, mount, pid, network, IPC and UTS namespaces; what it echoes shows that all mounts stand.
The run does not go through bubblewrap: the spawner's forked child joins the namespaces (`entry`) and becomes the program. So
its exit status, signals and terminal are its own, Landlock and the filter are put on as at `standard`, and no second
interpreter is started inside, which would cost 15 to 20 ms. While bubblewrap mounts, the child is forked and made ready.

`cat` ends with the spawner (its input is a pipe of the spawner's, and bubblewrap dies with its parent); with it ends the pid
namespace, and every process in it, which the kernel does at once.

No mount's destination is ever looked up below the workspace: bubblewrap follows symlinks there (CVE-2026-87766). What may be
written is bound by descriptor to `SHELF`, and moved to its place by descriptor afterwards (`entry`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sandboxd.runner import cgroup, linux
from sandboxd.runner.isolation import places
from sandboxd.runner.isolation.levels import BUBBLEWRAP
from sandboxd.values import frozen

CURE: Final = (
    "install bubblewrap with --bind-fd (0.10 or newer, or Debian 12's), on a host where users may make user namespaces; "
    "in a unit, with its drop-in for bubblewrap"
)
SHELF: Final = "/.shelf"  # folders that wait to be moved to their place
_READY_S: Final = 5.0  # 5 ms on an idle machine
_KEYS: Final = "/proc/keys"
_CATS: Final = ("/usr/bin/cat", "/bin/cat")
_MESSAGE_MAX_BYTES: Final = 4096


class Unusable(Exception):
    """bubblewrap did not make the namespaces; the message says why, in its own words where it had some."""


@frozen
class Bound:
    """A folder that was opened and checked, and where a run finds it (an absolute path)."""

    fd: int
    at: str


@frozen
class View:
    """What a run may reach. `read`: more of the host, by the operator's word; `tmp_bytes`: the size of a /tmp of its own."""

    program: str
    workspace: Bound
    writable: tuple[Bound, ...] = ()
    read: tuple[str, ...] = ()
    network: bool = False
    tmp_bytes: int = 64 * 1024 * 1024


@frozen
class Sandbox:
    """Namespaces that are being made for a run. `pid` is bubblewrap's, a child of this process.

    They end when `life_fd` is closed. `told_fd`: who is first in them; `echo_fd`: that all is mounted; `said_fd`: why not.
    """

    pid: int
    life_fd: int
    told_fd: int
    echo_fd: int
    said_fd: int

    @property
    def news_fds(self) -> tuple[int, ...]:
        """What whoever joins them needs, and nobody afterwards."""
        return (self.told_fd, self.echo_fd, self.said_fd)

    def first(self) -> int:
        """Wait until they are there: a pidfd of their first process. Nothing is mounted yet. `Unusable`."""
        told = b""
        while piece := self._read(self.told_fd):
            told += piece
        try:
            return os.pidfd_open(json.loads(told)["child-pid"])
        except (OSError, ValueError, KeyError):
            raise self._unusable() from None

    def wait_mounted(self) -> None:
        """Wait until a run finds in them what it is to find; `Unusable`."""
        if not self._read(self.echo_fd):
            raise self._unusable()

    def close(self) -> None:
        """End the namespaces, and everything in them. Reaping is the caller's."""
        os.close(self.life_fd)

    def undo(self) -> None:
        """The same where no run came to live in them, and perhaps they are not even made; reaped."""
        os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so it is nobody else
        os.waitpid(self.pid, 0)
        os.close(self.life_fd)

    def _read(self, fd: int) -> bytes:
        """What comes next; nothing at the end."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(_READY_S * 1000):
            raise Unusable(f"it was not ready within {_READY_S:.0f} s")
        return os.read(fd, _MESSAGE_MAX_BYTES)

    def _unusable(self) -> Unusable:
        return Unusable(_last_words(self.said_fd) or "it ended without a word")


def begin(view: View, *, bubblewrap: str = BUBBLEWRAP, cgroup_fd: int | None = None, marker: str = "") -> Sandbox:
    """Have fresh namespaces with that view made; `Unusable`. Whoever is to join them waits until they are there.

    `marker`: one variable for the environment, to know the processes by.
    """
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
        words = os.memfd_create("words")
        fds.append(words)
        # Not on the command line, which can be read inside and names the host's folders. Nor through a pipe: it holds 8 KiB
        # alone where a run has taken all the room that its user has for pipes (pipe(7)).
        copied = _plain_files(places.etc(network=view.network))
        fds += copied.values()
        _write_all(words, b"".join(os.fsencode(word) + b"\0" for word in _arguments(view, child_info, copied)))
        passed = (words, child_info, view.workspace.fd, *(bound.fd for bound in view.writable), *copied.values())
        arguments = [bubblewrap, "--args", str(words), "--", cat()]
        pid = _start(arguments, (child_in, child_out, child_err), passed, cgroup_fd, marker)
    except OSError as error:
        _close(fds)
        raise Unusable(_text(error)) from error
    made = Sandbox(pid, life, told, echo, said)
    try:
        os.write(life, b".")
    except OSError as error:
        made.undo()
        _close(made.news_fds)
        raise Unusable(_text(error)) from error
    finally:
        _close((child_in, child_out, child_err, child_info, words, *copied.values()))
    return made


def _plain_files(names: Sequence[str]) -> dict[str, int]:
    """Descriptors of those that are plain files, and may be read."""
    found = {}
    for name in names:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            continue
        if stat.S_ISREG(os.fstat(fd).st_mode):
            found[name] = fd
        else:
            os.close(fd)
    return found


def _arguments(view: View, info_fd: int, copied: Mapping[str, int]) -> list[str]:
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
        # A copy on a file system that is read-only in the end. For each mount bubblewrap reads the table of all mounts anew:
        # half of 43 mounts went by this, and two fifths of its time with them.
        how = ["--perms", "0444", "--file", str(copied[name])] if name in copied else ["--ro-bind-try", name]
        words += [*how, name]
    words += ["--proc", "/proc"]
    if Path(_KEYS).exists():  # they are a user's, in whatever namespace
        words += ["--dev-bind", os.devnull, _KEYS]
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


def _start(arguments: Sequence[str], streams: Sequence[int], passed: Sequence[int], cgroup_fd: int | None, marker: str) -> int:
    """The pid of a child that becomes bubblewrap, which is told nothing of the daemon's environment."""
    pid, is_inside = linux.fork(cgroup_fd)
    if pid == 0:
        try:
            os.setsid()
            if cgroup_fd is not None and not is_inside:
                cgroup.move_here(cgroup_fd)
            # What the spawner ignores stays ignored: the stop ladder is for the run.
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for number, fd in enumerate(streams):
                os.dup2(fd, number, inheritable=True)
            for fd in passed:
                os.set_inheritable(fd, True)
            os.chdir("/")
            name, _, value = marker.partition("=")
            os.execve(arguments[0], list(arguments), {name: value} if name else {})
        except BaseException as error:
            why = error.strerror if isinstance(error, OSError) else error
            os.write(2, f"cannot execute `{arguments[0]}`: {why}".encode())
        finally:
            os._exit(127)
    return pid


def _write_all(fd: int, data: bytes) -> None:
    """And back to the beginning."""
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)


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
