"""How does a forked child get into the namespaces that wait for it, and what must it leave outside?

In two steps: the spawner's child joins them by the pidfd of their first process (setns(2), Linux 5.8), and forks once more
(`second`), because only a child is born into another pid namespace.

Joining a user namespace of one's own gives every capability in it. They are used to put the writable folders in their place,
and are gone before anything else happens.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

from sandboxd.runner import linux, second
from sandboxd.runner.isolation import places
from sandboxd.runner.isolation.sandbox import SHELF, Bound, Sandbox, View

# linux/sched.h
_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_MOVE_MOUNT, _FSCONFIG, _FSPICK, _MOUNT_SETATTR = 429, 431, 433, 442  # the same numbers on every architecture
_SET_STRING, _RECONFIGURE = 1, 7  # enum fsconfig_command (linux/mount.h)
_NAME_BYTES: Final = 1024  # what a file without content takes of the kernel's memory
_AT_EMPTY_PATH: Final = 0x1000
_NOEXEC: Final = struct.pack("=QQQQ", 0x8, 0, 0, 0)  # struct mount_attr: MOUNT_ATTR_NOEXEC is to be set
_MOVE_MOUNT_T_EMPTY_PATH: Final = 0x40
_AT_FDCWD: Final = -100
_RESOLVE: Final = linux.RESOLVE_BENEATH | linux.RESOLVE_NO_SYMLINKS | linux.RESOLVE_NO_MAGICLINKS


def join(sandbox: Sandbox, *, network: bool, cgroup_fd: int | None, tell_fd: int, terminal: bool) -> None:
    """Become the second child, inside. The first writes the second's pid to `tell_fd` and never returns from here.

    Users and processes first, as soon as they are there: the second child is born while bubblewrap still mounts.
    """
    inside = sandbox.first()
    linux.setns(inside, _NEWUSER | _NEWPID)
    second.become(cgroup_fd=cgroup_fd, tell_fd=tell_fd, terminal=terminal)
    sandbox.wait_mounted()
    linux.setns(inside, _NEWNS | _NEWIPC | _NEWUTS | (0 if network else _NEWNET))


def put_in_place(view: View) -> list[int]:
    """Move each writable folder from the shelf to where it belongs; descriptors of them, good for rules.

    Their places are opened below the workspace without following anything, and must be the very folders that were checked.
    What is written there, or to /tmp, is no code: Landlock forbids to execute it, and these mounts to map it as code, which is
    how the system's own loader would execute it for anybody.
    """
    fds = []
    workspace = _open(view.workspace.at, view.workspace.fd)
    for number, bound in enumerate(view.writable):
        place = linux.openat2(workspace, _below(view, bound), os.O_PATH | os.O_DIRECTORY, resolve=_RESOLVE)
        _same(bound.at, place, bound.fd)
        linux.syscall(
            _MOVE_MOUNT,
            ctypes.c_int(_AT_FDCWD),
            f"{SHELF}/{number}".encode(),
            ctypes.c_int(place),
            b"",
            ctypes.c_uint(_MOVE_MOUNT_T_EMPTY_PATH),
        )
        os.close(place)
        place = linux.openat2(workspace, _below(view, bound), os.O_PATH | os.O_DIRECTORY, resolve=_RESOLVE)
        _same(bound.at, place, bound.fd)
        _no_code(place, "")
        fds.append(place)
    os.close(workspace)
    _no_code(_AT_FDCWD, places.TMP)
    _bound_names(places.TMP, view.tmp_bytes // _NAME_BYTES)
    return fds


def open_folder(view: View, relative: str, outside_fd: int) -> int:
    """The working directory, seen from inside: the one that was checked, or `OSError`."""
    workspace = _open(view.workspace.at, view.workspace.fd)
    try:
        folder = linux.openat2(workspace, relative, os.O_PATH | os.O_DIRECTORY, resolve=_RESOLVE)
    finally:
        os.close(workspace)
    _same(relative, folder, outside_fd)
    return folder


def drop_capabilities() -> None:
    """All of them, from every set, and for good."""
    number = 0
    while linux.drop_from_bounding_set(number):
        number += 1
    linux.drop_all_capabilities()


def _no_code(fd: int, name: str) -> None:
    """Of the mount that stands there (mount_setattr(2))."""
    at, size = ctypes.c_uint(_AT_EMPTY_PATH), ctypes.c_size_t(len(_NOEXEC))
    linux.syscall(_MOUNT_SETATTR, ctypes.c_int(fd), name.encode(), at, _NOEXEC, size)


def _bound_names(path: str, most: int) -> None:
    """How many files may be on the tmpfs there; its size counts their content alone (fsconfig(2), Linux 5.2)."""
    tmpfs = linux.syscall(_FSPICK, ctypes.c_int(_AT_FDCWD), path.encode(), ctypes.c_uint(0))
    try:
        for command, key, value in ((_SET_STRING, b"nr_inodes", str(most).encode()), (_RECONFIGURE, None, None)):
            linux.syscall(_FSCONFIG, ctypes.c_int(tmpfs), ctypes.c_uint(command), key, value, ctypes.c_int(0))
    finally:
        os.close(tmpfs)


def _open(path: str, outside_fd: int) -> int:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _same(path, fd, outside_fd)
    return fd


def _below(view: View, bound: Bound) -> str:
    return os.path.relpath(bound.at, view.workspace.at)


def _same(name: str, inside_fd: int, outside_fd: int) -> None:
    inside, outside = os.fstat(inside_fd), os.fstat(outside_fd)
    if (inside.st_dev, inside.st_ino) != (outside.st_dev, outside.st_ino):
        raise OSError(f"`{name}` was exchanged for another folder since it was checked")
