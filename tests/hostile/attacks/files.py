"""What can a task read, or learn, outside of its workspace?"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from functools import partial

from tests.hostile.attacks.craft import Targets, absent, attack, first, read, syscall

AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
F_NOTIFY, DN_MODIFY = 1026, 2


def canary(path: str, targets: Targets) -> str | None:
    found = read(path, 65_536)
    return f"read {path}" if targets.canary.encode() in found else None


@attack
def read_secret(t: Targets) -> str | None:
    return canary(t.secret, t)


@attack
def read_key_of_the_home(t: Targets) -> str | None:
    return canary(t.key, t)


@attack
def read_a_folder_whose_name_begins_like_the_root(t: Targets) -> str | None:
    return canary(t.sibling, t)


@attack
def read_by_dot_dot(t: Targets) -> str | None:
    return canary("../" * 40 + t.secret.lstrip("/"), t)


@attack
def read_by_proc_self_root(t: Targets) -> str | None:
    return canary("/proc/self/root" + t.secret, t)


@attack
def read_by_proc_self_cwd(t: Targets) -> str | None:
    return canary("/proc/self/cwd/" + "../" * 40 + t.secret.lstrip("/"), t)


@attack
def read_by_proc_thread_self(t: Targets) -> str | None:
    return canary("/proc/thread-self/root" + t.secret, t)


@attack
def read_by_oldroot(t: Targets) -> str | None:
    """bubblewrap's old root, should it still be there."""
    return first([lambda: canary("/oldroot" + t.secret, t), lambda: canary("/newroot" + t.secret, t)])


@attack
def read_token(t: Targets) -> str | None:
    return f"read {t.token}" if read(t.token) else None


@attack
def read_store(t: Targets) -> str | None:
    return f"read {t.store}" if read(t.store) else None


@attack
def read_audit_and_keys(t: Targets) -> str | None:
    for name in os.listdir(t.state):
        if read(os.path.join(t.state, name)):
            return f"read {name}"
    return None


@attack
def read_config(t: Targets) -> str | None:
    return f"read {t.config}" if read(t.config) else None


@attack
def read_policy(t: Targets) -> str | None:
    return f"read {t.policy}" if read(t.policy) else None


@attack
def read_daemon_code(t: Targets) -> str | None:
    """The installed daemon may be anywhere; nothing a task needs."""
    return f"read {t.code}" if read(t.code) else None


@attack
def read_etc_hostname(t: Targets) -> str | None:
    return f"read {t.hostname_file}" if read(t.hostname_file) else None


@attack
def read_var_log(t: Targets) -> str | None:
    return f"listed {len(os.listdir('/var/log'))} of /var/log"


@attack
def read_sys(t: Targets) -> str | None:
    return f"read {read('/sys/kernel/mm/transparent_hugepage/enabled', 40)!r}"


@attack
def connections_of_the_host(t: Targets) -> str | None:
    """Who listens where, and the names of sockets: the runner's own /proc folder has them too."""
    own = f"/proc/{t.leader}"
    return first([partial(listed, f"{own}/{place}/unix", t) for place in ("net", f"task/{t.leader}/net")])


def listed(path: str, t: Targets) -> str | None:
    with open(path) as file:
        return f"read it in {path}" if t.unix in file.read() else None


@attack
def read_kernel_log(t: Targets) -> str | None:
    return f"read {read('/dev/kmsg', 20)!r}"


@attack
def list_root(t: Targets) -> str | None:
    """The tmp folder of everybody."""
    found = os.listdir(os.path.dirname(t.secret))
    return f"listed {found}"


@attack
def symlink_in_runs(t: Targets) -> str | None:
    link = os.path.join(t.runs, "link-to-secret")
    os.symlink(t.secret, link)
    try:
        return f"made {link}" + (" and read it" if canary(link, t) else "")
    finally:
        os.unlink(link)


@attack
def read_by_a_symlink_that_is_there(t: Targets) -> str | None:
    """Left in the workspace by somebody else, pointing out."""
    return canary(t.symlink, t)


@attack
def hard_link_to_secret(t: Targets) -> str | None:
    link = os.path.join(t.runs, "hard")
    os.link(t.secret, link)
    return canary(link, t)


@attack
def hard_link_by_an_open_path(t: Targets) -> str | None:
    """linkat(2), AT_EMPTY_PATH: the opener's own descriptor in place of a path (anybody's since Linux 6.10)."""
    link = os.path.join(t.runs, "hard-2")
    syscall("linkat", os.open(t.secret, os.O_PATH), b"", AT_FDCWD, link.encode(), AT_EMPTY_PATH)
    return canary(link, t)


@attack
def rename_secret_into_runs(t: Targets) -> str | None:
    os.rename(t.expendable, os.path.join(t.runs, "moved"))
    return "moved it"


@attack
def open_by_handle(t: Targets) -> str | None:
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    syscall("name_to_handle_at", AT_FDCWD, t.secret.encode(), handle, ctypes.byref(mount), 0)
    folder = os.open("/", os.O_RDONLY)
    fd = syscall("open_by_handle_at", folder, handle, os.O_RDONLY)
    return f"opened it: {os.read(fd, 20)!r}"


@attack
def handle_of_the_state(t: Targets) -> str | None:
    """name_to_handle_at asks for no right on what it names, and tells which file system and inode it is."""
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    syscall("name_to_handle_at", AT_FDCWD, t.store.encode(), handle, ctypes.byref(mount), 0)
    return f"{handle.raw[:16].hex()} on mount {mount.value}"


@attack
def attribute_of_a_file_outside(t: Targets) -> str | None:
    """getxattr(2) by a name: reading without opening."""
    return f"{os.getxattr(t.secret, t.attribute)!r}"


@attack
def attributes_of_a_file_outside(t: Targets) -> str | None:
    return ", ".join(os.listxattr(t.secret)) or None


@attack
def attribute_by_the_newest_call(t: Targets) -> str | None:
    """getxattrat (Linux 6.13)."""
    value = ctypes.create_string_buffer(64)
    arguments = struct.pack("=QII", ctypes.addressof(value), 64, 0)
    syscall("getxattrat", AT_FDCWD, t.secret.encode(), 0, t.attribute.encode(), arguments, len(arguments))
    return f"{value.value!r}"


@attack
def attributes_by_the_newest_call(t: Targets) -> str | None:
    names = ctypes.create_string_buffer(256)
    size = syscall("listxattrat", AT_FDCWD, t.secret.encode(), 0, names, 256)
    return f"{names.raw[:size]!r}" if size else None


@attack
def link_of_a_folder_outside(t: Targets) -> str | None:
    """Where a symbolic link points: readlink(2) asks for no right on it."""
    return f"read {os.readlink(t.link)}"


@attack
def stat_another_workspace(t: Targets) -> str | None:
    return f"{os.stat(t.sibling).st_size} bytes"


@attack
def stat_key_of_the_home(t: Targets) -> str | None:
    return f"{os.stat(t.key).st_size} bytes"


@attack
def stat_state(t: Targets) -> str | None:
    return f"{os.stat(t.store).st_size} bytes"


@attack
def access_key_of_the_home(t: Targets) -> str | None:
    return "may read" if os.access(t.key, os.R_OK) else None


@attack
def enter_home(t: Targets) -> str | None:
    os.chdir(os.path.dirname(t.key))
    return f"in {os.getcwd()}"


@attack
def watch_home(t: Targets) -> str | None:
    """inotify(7): who opens what there."""
    fd = syscall("inotify_init1", 0)
    syscall("inotify_add_watch", fd, os.path.dirname(t.key).encode(), 0xFFF)
    return "watching"


@attack
def watch_state(t: Targets) -> str | None:
    """When the daemon writes, and so when others are answered."""
    fd = syscall("inotify_init1", 0)
    syscall("inotify_add_watch", fd, t.state.encode(), 0xFFF)
    return "watching"


@attack
def watch_by_dnotify(t: Targets) -> str | None:
    """fcntl(2), F_NOTIFY: a signal whenever somebody changes what is in a folder that may be read."""
    fcntl.fcntl(os.open(t.root, os.O_RDONLY), F_NOTIFY, DN_MODIFY)
    return "watching"


@attack
def watch_by_fanotify(t: Targets) -> str | None:
    fd = syscall("fanotify_init", 0x200, os.O_RDONLY)  # FAN_REPORT_FID: allowed to anybody since 5.13
    return f"has {fd}"


@attack
def open_path_only(t: Targets) -> str | None:
    """O_PATH asks for no right to read; the descriptor may lead further."""
    fd = os.open(os.path.dirname(t.key), os.O_PATH | os.O_DIRECTORY)
    inner = os.open(os.path.basename(t.key), os.O_RDONLY, dir_fd=fd)
    return f"read {os.read(inner, 30)!r}"


@attack
def reopen_by_descriptor(t: Targets) -> str | None:
    fd = os.open(t.key, os.O_PATH)
    return canary(f"/proc/self/fd/{fd}", t)


@attack
def inherited_descriptors(t: Targets) -> str | None:
    """Whatever the task was born with beyond its three streams, before the runner opened anything."""
    return ", ".join(t.born_with) or None


@attack
def streams_that_lead_elsewhere(t: Targets) -> str | None:
    """The three streams are the task's own terminal or pipes, never a folder or a file."""
    folders = [fd for fd in (0, 1, 2) if os.fstat(fd).st_mode & 0o170000 in (0o040000, 0o100000)]
    return f"{folders}" if folders else None


@attack
def environment_of_the_daemon(t: Targets) -> str | None:
    leaked = [name for name in os.environ if name not in t.env_names]
    return ", ".join(leaked) or None


@attack
def secret_in_own_environ_file(t: Targets) -> str | None:
    return "it is there" if t.daemon_canary.encode() in read("/proc/self/environ", 1 << 20) else None


@attack
def work_folder_of_another_root(t: Targets) -> str | None:
    if not t.other_root:
        raise absent("there is no second instance")
    return f"listed {os.listdir(t.other_root)}"
