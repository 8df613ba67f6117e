"""What does the kernel know of a run's terminal?

Its line mode and echo (tcgetattr(3) on the master), its foreground group (tcgetpgrp(3)), and whether a process of the run waits
for input on it (`waiting`). All of it works unprivileged for the same user. What cannot be told is None, never a guess: the
detector then goes by the text. Measured: 20 to 60 µs while the last reader still reads, 0.2 to 1 ms for a search.

A search has a budget, for a run may have thousands of processes. Not finding anybody within it is "not known", not "nobody".
"""

from __future__ import annotations

import fcntl
import os
import stat
import termios
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import attrs

from sandboxd.detect.evidence import Evidence
from sandboxd.runner.tree import children_of, read_proc
from sandboxd.runner.waiting import Unreadable, Wait, first_of, wait_of, why_not_here
from sandboxd.values import frozen

SEARCH_MAX_S: Final = 0.008  # of work; one look holds the daemon's loop up for little longer, and a busy machine blinds nobody
_NAME_MAX: Final = 64
_PROCESSES_MAX: Final = 256
_THREADS_MAX: Final = 256
_DESCRIPTORS_MAX: Final = 256
_STRANGERS_MAX: Final = 512
_RELAYS_MAX: Final = 2  # a relay behind a relay is followed, then the text decides
_LFLAG: Final = 3
_TIOCGPTPEER: Final = 0x5441
_TTY: Final = os.makedev(5, 0)  # /dev/tty: whatever terminal is the process's own
_PTMX: Final = os.makedev(5, 2)


def availability() -> str:
    """Why the kernel cannot be asked who reads; empty: it can. Told once, at start."""
    return why_not_here()


@frozen
class _Stat:
    """One line of /proc/PID/stat."""

    state: str
    parent: int
    group: int
    session: int
    terminal: int


@frozen
class _Terminal:
    """What tells a terminal's other end from every other: its device, and its inode where a path of ours leads there."""

    device: int
    inode: tuple[int, int] | None = None

    def is_at(self, pid: int, fd: int) -> bool:
        try:
            found = os.stat(f"/proc/{pid}/fd/{fd}")
        except PermissionError:
            raise Unreadable from None
        except OSError:
            return False
        if not stat.S_ISCHR(found.st_mode):
            return False
        if found.st_rdev == _TTY:
            facts = _stat(pid)
            return facts is not None and facts.terminal == self.device
        if self.inode is not None:
            return (found.st_dev, found.st_ino) == self.inode
        return found.st_rdev == self.device


@frozen
class _Found:
    """A process that waits for input on the terminal."""

    pid: int
    tid: int
    wait: Wait


class Witness:
    """One run's terminal. `look` is plain and quick; its owner calls it when the detector wants to know.

    `strays`: the pids among which those of the run are that are not below its leader any more. On a host of many runs it must
    not name everybody's, or each look costs as much as there are runs. None: the children of the leader's own parent.
    """

    def __init__(self, terminal_fd: int, leader: int, strays: Callable[[], Collection[int]] | None = None) -> None:
        self._fd = terminal_fd
        self._leader = leader
        self._strays = strays or (lambda: _siblings(leader))
        self._terminal = _terminal_of(terminal_fd)
        self._why_not = why_not_here() or ("" if self._terminal else "the terminal's other end cannot be told")
        self._last: _Found | None = None

    def __repr__(self) -> str:
        return f"<Witness of {self._leader} {self._why_not or 'asks the kernel'}>"

    @property
    def knows_readers(self) -> bool:
        """Whether it can ever say who reads."""
        return not self._why_not

    @property
    def reader_pid(self) -> int | None:
        """Who was found to wait at the last look, at this very terminal; None: nobody."""
        return None if self._last is None else self._last.pid

    def look(self) -> Evidence:
        """The terminal as it is now."""
        try:
            mode = termios.tcgetattr(self._fd)[_LFLAG]
        except (OSError, termios.error):
            return Evidence()
        canonical, echo = bool(mode & termios.ICANON), bool(mode & termios.ECHO)
        if self._terminal is None or self._why_not or not _can_open(self._fd):
            return Evidence(canonical, echo)
        blind = canonical and not echo
        search = _Search(self._terminal, self._leader, _group_of(self._fd), self._strays, blind=blind)
        found = self._last = search.again(self._last) or search.run()
        if found is None:
            return Evidence(canonical, echo, search.verdict)
        try:
            return self._told(search, found, canonical, echo)
        except Unreadable:  # it ends under the look, or became another user's program: the kernel does not say now
            return Evidence(canonical, echo)

    def _told(self, search: _Search, found: _Found, canonical: bool, echo: bool) -> Evidence:
        reader = f"{_name(found.pid)}: {found.wait.call}"
        if found.wait.call == "read":
            return Evidence(canonical, echo, True, is_exact=True, reader=reader)
        inner = search.behind(found)
        if inner is None:
            is_lazy = found.wait.call == "epoll"
            return Evidence(canonical, echo, True, reader=reader, is_idle=search.is_remote(found), is_lazy=is_lazy)
        return attrs.evolve(inner, reader=f"{reader}; {inner.reader}" if inner.reader else reader)


class _Search:
    """One look for readers, with what it learned on the way."""

    def __init__(
        self,
        terminal: _Terminal,
        leader: int,
        group: int | None,
        strays: Callable[[], Collection[int]],
        *,
        blind: bool,
        depth: int = 0,
    ) -> None:
        self._terminal = terminal
        self._leader = leader
        self._group = group
        self._strays = strays
        self._blind = blind
        self._depth = depth
        self._ends_at = time.thread_time() + SEARCH_MAX_S
        self._is_cut = False
        self._has_unreadable = False
        self._is_asleep = False  # an unreadable process of the foreground sleeps

    @property
    def verdict(self) -> bool | None:
        """What it means that nobody was found: nobody, unless somebody could not be looked at."""
        if self._has_unreadable:
            # setuid: its own word cannot be had, but one that sleeps in front of a terminal that hides typing asks
            return True if self._blind and self._is_asleep else None
        return None if self._is_cut else False

    def again(self, last: _Found | None) -> _Found | None:
        """The reader of the last look, if it still waits; one that ends cannot be looked at any more, and does not."""
        try:
            return None if last is None else self._thread(last.pid, last.tid)
        except Unreadable:
            return None

    def run(self) -> _Found | None:
        """Anybody who waits for input on the terminal, those in the foreground first."""
        seen: set[int] = set()
        for root in self._roots(seen):
            for pid, threads in self._below(root, seen):
                if found := self._process(pid, threads):
                    return found
            if self._is_cut:
                break
        return self._stranger(seen) if self._blind else None

    def _roots(self, seen: Collection[int]) -> Iterator[int]:
        """Those below whom everybody of the run is: asked for one by one, as the first mostly says it."""
        if self._group:
            yield self._group
        yield self._leader
        for pid in self._strays():
            if time.thread_time() > self._ends_at:
                self._is_cut = True
                return
            own = None if pid in seen else _stat(pid)
            if own is not None and (own.terminal == self._terminal.device or own.session == self._leader or not own.terminal):
                yield pid

    def _below(self, root: int, seen: set[int]) -> Iterator[tuple[int, list[int]]]:
        """The process and its descendants that were not seen yet, the nearest first, each with its threads."""
        row = [root]
        while row:
            pid = row.pop(0)
            if pid in seen:
                continue
            if len(seen) >= _PROCESSES_MAX or time.thread_time() > self._ends_at:
                self._is_cut = True
                return
            seen.add(pid)
            threads = self._threads(pid)
            yield pid, threads
            row += children_of(pid, threads)

    def _stranger(self, seen: set[int]) -> _Found | None:
        """An agent that was there before, such as gpg's, may ask for a secret on a terminal that is not its own."""
        count = 0
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) in seen:
                continue
            count += 1
            if count > _STRANGERS_MAX or time.thread_time() > self._ends_at:
                self._is_cut = True
                return None
            try:
                if os.stat(f"/proc/{name}").st_uid == os.geteuid() and (
                    found := self._process(int(name), self._threads(int(name)), is_stranger=True)
                ):
                    return found
            except OSError:
                continue
        return None

    def _process(self, pid: int, threads: Sequence[int], *, is_stranger: bool = False) -> _Found | None:
        facts = _stat(pid)
        if facts is None or facts.state in "TtZX":  # stopped in the background, or dead
            return None
        if facts.terminal == self._terminal.device and self._group and facts.group != self._group:
            return None  # in the background of its own terminal: a read would stop it
        try:
            for tid in threads:
                if found := self._thread(pid, tid):
                    return found
        except Unreadable:
            if not is_stranger and facts.group == self._group:
                self._has_unreadable = True
                self._is_asleep = self._is_asleep or facts.state == "S"
        return None

    def _threads(self, pid: int) -> list[int]:
        try:
            names = os.listdir(f"/proc/{pid}/task")
        except OSError:
            return []
        self._is_cut = self._is_cut or len(names) > _THREADS_MAX
        return [int(name) for name in names[:_THREADS_MAX]]

    def _thread(self, pid: int, tid: int) -> _Found | None:
        wait = wait_of(pid, tid)
        if wait is None:
            return None
        if first_of(wait.fds, lambda fd: self._terminal.is_at(pid, fd)) is None:
            return None
        return _Found(pid, tid, wait)

    def is_remote(self, found: _Found) -> bool:
        """Whether it waits for a peer as well as for the terminal, as ssh and telnet do all the time."""
        if found.wait.call == "epoll":
            return False  # runtimes have all that they do in one epoll
        return first_of(found.wait.fds, lambda fd: _is_socket(found.pid, fd)) is not None

    def behind(self, found: _Found) -> Evidence | None:
        """For a relay (script, expect): the terminal behind it, which tells whether somebody asks. None: it is no relay."""
        if self._depth >= _RELAYS_MAX:
            return None
        for fd in _descriptors(found.pid):
            index = _master_index(found.pid, fd)
            if index is None:
                continue
            inner = _Terminal(os.makedev(136 + (index >> 20), index & 0xFFFFF))
            search = _Search(inner, found.pid, None, self._strays, blind=False, depth=self._depth + 1)
            reader = search.run()
            canonical, echo = _mode_of(index, inner)
            if reader is None:
                return Evidence(canonical, echo, search.verdict)
            is_exact = reader.wait.call == "read"
            told = f"{_name(reader.pid)}: {reader.wait.call}"
            return search.behind(reader) or Evidence(canonical, echo, True, is_exact=is_exact, reader=told)
        return None


def _can_open(fd: int) -> bool:
    """Whether this process has a descriptor left: without one nobody can be looked at, which must not look like nobody."""
    try:
        os.close(os.dup(fd))
    except OSError:
        return False
    return True


def _terminal_of(master_fd: int) -> _Terminal | None:
    try:
        peer = fcntl.ioctl(master_fd, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(peer)
        return _Terminal(found.st_rdev, (found.st_dev, found.st_ino))
    finally:
        os.close(peer)


def _group_of(master_fd: int) -> int | None:
    try:
        return os.tcgetpgrp(master_fd) or None  # 0: of another pid namespace
    except OSError:
        return None


def _mode_of(index: int, terminal: _Terminal) -> tuple[bool | None, bool | None]:
    """Line mode and echo of a terminal that is not ours, if it may be opened."""
    try:
        fd = os.open(f"/dev/pts/{index}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None, None
    try:
        if os.fstat(fd).st_rdev != terminal.device:
            return None, None
        mode = termios.tcgetattr(fd)[_LFLAG]
        return bool(mode & termios.ICANON), bool(mode & termios.ECHO)
    except (OSError, termios.error):
        return None, None
    finally:
        os.close(fd)


def _master_index(pid: int, fd: int) -> int | None:
    try:
        if os.stat(f"/proc/{pid}/fd/{fd}").st_rdev != _PTMX and "ptmx" not in os.readlink(f"/proc/{pid}/fd/{fd}"):
            return None
        for line in read_proc(f"/proc/{pid}/fdinfo/{fd}", 4096).splitlines():
            if line.startswith(b"tty-index:"):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def _is_socket(pid: int, fd: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")
    except OSError:
        return False


def _descriptors(pid: int) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))[:_DESCRIPTORS_MAX]
    except OSError:
        return []


def _siblings(leader: int) -> list[int]:
    facts = _stat(leader)
    return children_of(facts.parent) if facts is not None and facts.parent > 1 else []


def _stat(pid: int) -> _Stat | None:
    try:
        text = read_proc(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # proc_pid_stat(5) counts from 3
    return _Stat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), _device(fields[4]))


def _device(field: bytes) -> int:
    """`tty_nr` is a device as the kernel encodes it."""
    number = int(field) & 0xFFFFFFFF
    return os.makedev(number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xFFF00)


def _name(pid: int) -> str:
    """What the program was started as; its main thread's name (comm) is what it pleases, and node's is `MainThread`."""
    try:
        first = read_proc(f"/proc/{pid}/cmdline", 4096).partition(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        return "?"
    return first.rpartition("/")[2].removeprefix("-")[:_NAME_MAX] or "?"  # `-bash`: a login shell
