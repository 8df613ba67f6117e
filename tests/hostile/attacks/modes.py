"""What can a task change about a file but its content: mode, owner, times, attributes, locks?"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct

from tests.hostile.attacks.craft import Targets, attack, syscall, write

AT_FDCWD = -100
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_ENABLE_VERITY = 0x80086601, 0x40086602, 0x40806685
FS_IOC_GETVERSION, EXT4_IOC_SETVERSION, EXT4_IOC_MIGRATE = 0x80087601, 0x40086604, 0x6609
FS_IOC_ADD_ENCRYPTION_KEY, BTRFS_IOC_SUBVOL_CREATE = 0xC0506617, 0x5000940E


@attack
def chmod_key_of_the_home(t: Targets) -> str | None:
    os.chmod(t.key, 0o666)
    return "everybody may read it"


@attack
def chmod_workspace_file(t: Targets) -> str | None:
    os.chmod(t.workspace_file, 0o666)
    return "everybody may write it"


@attack
def chmod_policy(t: Targets) -> str | None:
    os.chmod(t.policy, 0o666)
    return "everybody may write it"


@attack
def chmod_by_the_newest_call(t: Targets) -> str | None:
    """fchmodat2 (Linux 6.6), which a list of older calls forgets."""
    syscall("fchmodat2", AT_FDCWD, t.workspace_file_2.encode(), 0o666, 0)
    return "everybody may write it"


@attack
def chmod_by_an_open_descriptor(t: Targets) -> str | None:
    """Reading is allowed, so there is a descriptor."""
    os.fchmod(os.open(t.workspace_file_2, os.O_RDONLY), 0o666)
    return "everybody may write it"


@attack
def chown_workspace_file(t: Targets) -> str | None:
    os.chown(t.workspace_file, -1, os.getegid())
    return "changed its group"


@attack
def touch_workspace_file(t: Targets) -> str | None:
    os.utime(t.workspace_file, (1, 1))
    return "changed its times"


@attack
def touch_by_an_open_descriptor(t: Targets) -> str | None:
    os.utime(os.open(t.workspace_file_2, os.O_RDONLY), (1, 1))
    return "changed its times"


@attack
def xattr_on_workspace_file(t: Targets) -> str | None:
    os.setxattr(t.workspace_file, "user.sandboxd", b"x")
    return "set it"


@attack
def xattr_by_an_open_descriptor(t: Targets) -> str | None:
    os.setxattr(os.open(t.workspace_file_2, os.O_RDONLY), "user.sandboxd", b"x")
    return "set it"


@attack
def xattr_by_the_newest_call(t: Targets) -> str | None:
    value = ctypes.create_string_buffer(b"x")
    arguments = struct.pack("=QII", ctypes.addressof(value), 1, 0)
    syscall("setxattrat", AT_FDCWD, t.workspace_file.encode(), 0, b"user.sandboxd2", arguments, len(arguments))
    return "set it"


@attack
def flags_by_the_newest_call(t: Targets) -> str | None:
    """file_setattr (Linux 6.17): what chattr(1) does, by a path."""
    arguments = struct.pack("=QIIII", 0, 0, 0, 0, 0)
    syscall("file_setattr", AT_FDCWD, t.workspace_file.encode(), arguments, len(arguments), 0)
    return "set them"


@attack
def flags_by_an_open_descriptor(t: Targets) -> str | None:
    """chattr(1): a descriptor for reading is enough."""
    fd = os.open(t.workspace_file_2, os.O_RDONLY)
    fcntl.ioctl(fd, FS_IOC_SETFLAGS, fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(8)))
    return "set them"


@attack
def version_by_an_open_descriptor(t: Targets) -> str | None:
    """EXT4_IOC_SETVERSION, which is not FS_IOC_SETVERSION: the same for ext4."""
    fd = os.open(t.workspace_file_2, os.O_RDONLY)
    fcntl.ioctl(fd, EXT4_IOC_SETVERSION, fcntl.ioctl(fd, FS_IOC_GETVERSION, bytes(8)))
    return "set it"


@attack
def layout_by_an_open_descriptor(t: Targets) -> str | None:
    """EXT4_IOC_MIGRATE: how its blocks are laid out."""
    fcntl.ioctl(os.open(t.workspace_file_2, os.O_RDONLY), EXT4_IOC_MIGRATE)
    return "laid it out anew"


@attack
def subvolume_by_an_open_folder(t: Targets) -> str | None:
    """BTRFS_IOC_SUBVOL_CREATE makes a folder by a descriptor for reading, and asks nobody but the mode."""
    argument = ctypes.create_string_buffer(struct.pack("=q4088s", 0, b"subvolume"))
    syscall("ioctl", os.open(t.root, os.O_RDONLY), BTRFS_IOC_SUBVOL_CREATE, argument)
    return "made it"


@attack
def key_for_the_file_system(t: Targets) -> str | None:
    """FS_IOC_ADD_ENCRYPTION_KEY: kernel memory, and a key of the user's, for whoever can open a file there."""
    argument = struct.pack("=II32xII32x", 2, 0, 64, 0).ljust(80, bytes(1)) + bytes(64)
    fcntl.ioctl(os.open(t.root, os.O_RDONLY), FS_IOC_ADD_ENCRYPTION_KEY, argument)
    return "added it"


@attack
def seal_by_verity(t: Targets) -> str | None:
    """fs-verity, which nobody can undo; most file systems have none."""
    fd = os.open(t.workspace_file_2, os.O_RDONLY)
    fcntl.ioctl(fd, FS_IOC_ENABLE_VERITY, struct.pack("=IIIIQIIQ", 1, 1, 4096, 0, 0, 0, 0, 0).ljust(128, b"\0"))
    return "sealed it"


@attack
def lock_the_store(t: Targets) -> str | None:
    """Reading is enough to lock, and to hold the daemon up."""
    fd = os.open(t.store, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked the daemon's store"


@attack
def lease_on_a_workspace_file(t: Targets) -> str | None:
    """fcntl(2), F_SETLEASE: whoever opens it for writing waits for 45 s, or until this task is so good."""
    fd = os.open(t.workspace_file, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return "everybody else's writers wait"


@attack
def setuid_file_in_runs(t: Targets) -> str | None:
    """Whoever runs it later has the daemon's user id."""
    path = os.path.join(t.runs, "setuid")
    write(path, "x", os.O_WRONLY | os.O_CREAT)
    try:
        os.chmod(path, 0o4755)
        return "made it" if os.stat(path).st_mode & stat.S_ISUID else None
    finally:
        os.unlink(path)


@attack
def setuid_file_by_open(t: Targets) -> str | None:
    """The same without chmod: the mode of a new file."""
    path = os.path.join(t.runs, "setuid-2")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o4755))
    try:
        return "made it" if os.stat(path).st_mode & stat.S_ISUID else None
    finally:
        os.unlink(path)


@attack
def setgid_folder_in_runs(t: Targets) -> str | None:
    path = os.path.join(t.runs, "setgid")
    os.mkdir(path)
    try:
        os.chmod(path, 0o2777)
        return "made it" if os.stat(path).st_mode & stat.S_ISGID else None
    finally:
        os.rmdir(path)
