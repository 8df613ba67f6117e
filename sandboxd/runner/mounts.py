"""Is that mount only another view of what is there anyway?

A unit's `ReadWritePaths=` and `ReadOnlyPaths=` lay a folder over itself, with other rights (systemd.exec(5)). To `openat2` it
is another mount all the same. What is told apart here is a mount that shows other content: of another file system, or of
another place of the same one. Who may mount at all is root, or nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from sandboxd.values import frozen


@frozen
class Mount:
    """One line of proc_pid_mountinfo(5): which file system, which folder of it, where it is to be seen."""

    parent: int
    device: str
    root: PurePosixPath
    point: PurePosixPath


def shows_the_same(root_fd: int, fd: int) -> bool:
    """Whether each mount between the two descriptors, the first of them above, lies over the very place that it shows."""
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    top, current = _mount_of(root_fd), _mount_of(fd)
    while current != top:
        mount = mounts.get(current)
        below = mounts.get(mount.parent) if mount is not None else None
        if mount is None or below is None or not _lies_over_itself(mount, below):
            return False
        current = mount.parent
    return True


def parse_mountinfo(text: str) -> dict[int, Mount]:
    """The mounts by their ids."""
    found = {}
    for line in text.splitlines():
        number, parent, device, root, point, *_ = line.split(" ")
        found[int(number)] = Mount(int(parent), device, _path(root), _path(point))
    return found


def _lies_over_itself(mount: Mount, below: Mount) -> bool:
    return (
        mount.device == below.device
        and mount.point.is_relative_to(below.point)
        and mount.root == below.root / mount.point.relative_to(below.point)
    )


def _mount_of(fd: int) -> int:
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    facts: Mapping[str, str] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return int(facts["mnt_id"])


def _path(text: str) -> PurePosixPath:
    """Blanks and backslashes are written in octal."""
    return PurePosixPath(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text))
