"""Is that path really below the instance's root, and is it what it must be?

The root is opened once; below it the kernel resolves names with `openat2` and refuses symlinks, magic links, other mounts
(but those of `mounts`) and everything that leads out. What was opened is what is judged (`fstat` on the descriptor), so a name
that is swapped in between changes nothing. Files are first opened with O_PATH, which touches neither a device nor a fifo, and
opened for reading only when they are regular.

A second name for a file (a hard link) would be a way around the root: whoever may write below it could link a secret of the
daemon's user there. So a file with more than one name is refused.

What is not promised here: a program opens the runner and the request again, by name, after these checks. Whoever can write
below the root at that moment can still swap them. A sandbox takes that right away from other runs, and a file that is handed
over as a descriptor (`handover`) cannot be swapped by anybody. The digests say which bytes were checked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import Final

from sandboxd.errors import Problem
from sandboxd.policy.model import CheckedPath
from sandboxd.policy.paths import is_below
from sandboxd.runner import handover, linux, mounts
from sandboxd.values import frozen

FILE_MAX_BYTES: Final = 16 * 1024 * 1024  # a runner: an esbuild bundle of a large tool has 1 to 10 MB
REQUEST_MAX_BYTES: Final = 1024 * 1024  # a request is written by hand or by a planner; Kubernetes objects stop at 1.5 MiB

_KEYWORD: Final = "path"
_RESOLVE: Final = linux.RESOLVE_BENEATH | linux.RESOLVE_NO_SYMLINKS | linux.RESOLVE_NO_MAGICLINKS | linux.RESOLVE_NO_XDEV
_WHY: Final = {
    errno.ELOOP: "is a symlink, and symlinks below the instance's root are not followed",
    errno.EXDEV: "leads out of the instance's root, or onto another mount",
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "is not a directory",
    errno.EACCES: "may not be opened by the daemon's user",
    errno.ENAMETOOLONG: "is too long a name",
    errno.EAGAIN: "was renamed again and again while it was opened",
}


class Refused(Exception):
    """One path cannot be used; `problem` says which, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@frozen
class Opened:
    """What the checks found: a descriptor of the working directory, sha256 of each file, sealed copies of some.

    The caller closes the descriptors.
    """

    folder_fd: int
    digests: dict[str, str]
    handed: tuple[int, ...] = ()


def open_root(path: str) -> int:
    """A descriptor of an instance's root. Symlinks in the operator's own path are the operator's business."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def open_all(root_fd: int, folder: str, paths: Sequence[CheckedPath]) -> Opened | tuple[Problem, ...]:
    """Open the working directory and check every path: all of it, or every reason against it."""
    problems: list[Problem] = []
    digests: dict[str, str] = {}
    handed: list[int] = []
    folder_fd = -1
    if not any(checked.kind == "directory" and checked.path == folder for checked in paths):
        paths = [CheckedPath("working_dir", folder, "directory"), *paths]
    for checked in paths:
        try:
            if checked.kind == "file":
                content = _read(root_fd, checked)
                digests[checked.hole] = _digest(checked, content)
                if checked.hands_bytes:
                    handed.append(_sealed(checked, content))
                continue
            fd = open_folder(root_fd, checked)
        except Refused as refused:
            problems.append(refused.problem)
            continue
        if checked.path == folder and folder_fd < 0:
            folder_fd = fd
        else:
            os.close(fd)
    if problems:
        for fd in (*handed, *([folder_fd] if folder_fd >= 0 else ())):
            os.close(fd)
        return tuple(problems)
    return Opened(folder_fd, digests, tuple(handed))


def open_writable(root_fd: int, names: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...], tuple[Problem, ...]]:
    """Descriptors of the folders that may be written (the caller closes them), those that do not exist, and what is wrong.

    One that stands below another says nothing new and is left out.
    """
    opened: dict[str, int] = {}
    missing: list[str] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        if is_below(name, [other for other in names if other != name]):
            continue
        try:
            opened[name] = open_folder(root_fd, CheckedPath("writable", name, "directory"))
        except Refused as refused:
            if isinstance(refused.__cause__, FileNotFoundError):
                missing.append(name)
            else:
                problems.append(refused.problem)
    return opened, tuple(missing), tuple(problems)


def open_folder(root_fd: int, checked: CheckedPath) -> int:
    """A descriptor (O_PATH, good for `fchdir`) of a directory below the root."""
    return _open(root_fd, checked, os.O_PATH | os.O_DIRECTORY)


def open_file(root_fd: int, checked: CheckedPath, *, max_bytes: int) -> int:
    """A descriptor for reading of a regular file below the root that has no other name."""
    handle = _open(root_fd, checked, os.O_PATH)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(checked, f"is {_kind(found.st_mode)}, must be a regular file")
        if found.st_nlink != 1:
            raise _refused(checked, f"has {found.st_nlink} names (hard links), must have one")
        if found.st_size > max_bytes:
            raise _refused(checked, f"has {found.st_size} bytes, at most {max_bytes} are allowed")
        try:
            return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise _refused(checked, _why(error)) from error
    finally:
        os.close(handle)


def _read(root_fd: int, checked: CheckedPath) -> bytes:
    max_bytes = REQUEST_MAX_BYTES if checked.hole == "request" else FILE_MAX_BYTES
    with os.fdopen(open_file(root_fd, checked, max_bytes=max_bytes), "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise _refused(checked, f"grew over {max_bytes} bytes while it was read")
    return content


def _digest(checked: CheckedPath, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if checked.pins and digest not in checked.pins:
        which = "another" if len(checked.pins) == 1 else f"{len(checked.pins)} others"
        raise Refused(Problem(checked.hole, f"`{checked.path}` is {digest}, and the policy pins {which}", "pin"))
    return digest


def _sealed(checked: CheckedPath, content: bytes) -> int:
    try:
        return handover.seal(content)
    except OSError as error:
        raise _refused(checked, f"cannot be handed over: {os.strerror(error.errno or 0).lower()}") from error


def _open(root_fd: int, checked: CheckedPath, flags: int) -> int:
    if os.fstat(root_fd).st_nlink == 0:
        raise _refused(checked, "cannot be found: the instance's root was removed since the daemon started")
    try:
        return _open_below(root_fd, checked.path, flags)
    except (OSError, ValueError) as error:  # ValueError: text that is no file name
        raise _refused(checked, _why(error), at=_first_bad(root_fd, checked)) from error


def _open_below(root_fd: int, path: str, flags: int) -> int:
    """openat2(2), onto no other mount but one that a unit laid over the same place to change its rights."""
    try:
        return linux.openat2(root_fd, path, flags, resolve=_RESOLVE)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        fd = _open_across(root_fd, path, flags)
        if fd is None:
            raise
        return fd


def _open_across(root_fd: int, path: str, flags: int) -> int | None:
    try:
        fd = linux.openat2(root_fd, path, flags, resolve=_RESOLVE & ~linux.RESOLVE_NO_XDEV)
    except OSError:  # it leads out, or there is nothing on the other mount
        return None
    if mounts.shows_the_same(root_fd, fd):
        return fd
    os.close(fd)
    return None


def _first_bad(root_fd: int, checked: CheckedPath) -> str:
    """The leading part of the path that cannot be opened. Only for the message: a moment later it may be another."""
    parts = checked.path.split("/")
    for end in range(1, len(parts)):
        part = "/".join(parts[:end])
        try:
            os.close(_open_below(root_fd, part, os.O_PATH | os.O_DIRECTORY))
        except (OSError, ValueError):
            return part
    return checked.path


def _refused(checked: CheckedPath, why: str, *, at: str | None = None) -> Refused:
    path = checked.path if at is None else at
    return Refused(Problem(checked.hole, f"`{path}` {why}", _KEYWORD))


def _why(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError) or error.errno is None:
        return "is no file name"
    return _WHY.get(error.errno, f"cannot be opened: {os.strerror(error.errno).lower()}")


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a fifo"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "something else")
