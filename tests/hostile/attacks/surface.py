"""How much of the kernel can a task get at that no command of ours needs?"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
from collections.abc import Callable
from functools import partial

from tests.hostile.attacks.craft import X32_BIT, Targets, absent, attack, first, syscall

CLONE_NEWTIME = 0x80
KEYRING_OF_USER, IPC_RMID = -4, 0
NAMESPACES = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000, "time": CLONE_NEWTIME,
}  # fmt: skip


@attack
def own_user_namespace(t: Targets) -> str | None:
    syscall("unshare", NAMESPACES["user"])
    return "root in there"


@attack
def own_namespace_of_any_kind(t: Targets) -> str | None:
    got = []
    refusal: OSError | None = None
    for name, flag in NAMESPACES.items():
        try:
            syscall("unshare", flag)
        except OSError as error:
            refusal = error
        else:
            got.append(name)
    if not got and refusal is not None:
        raise refusal
    return ", ".join(got)


@attack
def own_user_namespace_by_clone(t: Targets) -> str | None:
    child = syscall("clone", NAMESPACES["user"] | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "root in there"


@attack
def own_user_namespace_by_clone3(t: Targets) -> str | None:
    arguments = ctypes.create_string_buffer(struct.pack("=8Q", NAMESPACES["user"], 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
    child = syscall("clone3", arguments, 64)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "root in there"


@attack
def mount_in_own_namespace(t: Targets) -> str | None:
    syscall("unshare", NAMESPACES["user"] | NAMESPACES["mount"])
    syscall("mount", b"t", b"/tmp", b"tmpfs", 0, 0)
    return "mounted"


@attack
def unshare_by_the_tool(t: Targets) -> str | None:
    done = subprocess.run(["/usr/bin/unshare", "-Ur", "/usr/bin/id", "-u"], capture_output=True, text=True, check=False)
    return "root in there" if done.stdout.strip() == "0" else None


@attack
def bubblewrap_in_bubblewrap(t: Targets) -> str | None:
    done = subprocess.run(["/usr/bin/bwrap", "--ro-bind", "/", "/", "/bin/true"], capture_output=True, check=False)
    return "built one" if done.returncode == 0 else None


@attack
def join_namespaces_of_victim(t: Targets) -> str | None:
    fd = syscall("pidfd_open", t.victim, 0)
    syscall("setns", fd, NAMESPACES["net"])
    return "joined"


@attack
def join_a_namespace_by_its_file(t: Targets) -> str | None:
    return first([partial(joined, f"/proc/{t.victim}/ns/{name}") for name in ("user", "net", "mnt", "pid")])


def joined(path: str) -> str:
    syscall("setns", os.open(path, os.O_RDONLY), 0)
    return "joined"


@attack
def mount_a_folder(t: Targets) -> str | None:
    syscall("mount", b"/", b"/mnt", 0, 4096, 0)
    return "mounted"


@attack
def unmount(t: Targets) -> str | None:
    return first([partial(unmounted, path) for path in (b"/proc", b"/tmp", b"/")])


def unmounted(path: bytes) -> str:
    syscall("umount2", path, 2)
    return "unmounted"


@attack
def remount_writable(t: Targets) -> str | None:
    syscall("mount", 0, t.root.encode(), 0, 32 | 4096, 0)
    return "remounted"


@attack
def mount_by_the_new_calls(t: Targets) -> str | None:
    return first(
        [
            lambda: f"has {syscall('fsopen', b'tmpfs', 0)}",
            lambda: f"has {syscall('open_tree', -100, b'/', 1)}",
            lambda: f"has {syscall('fspick', -100, b'/', 0)}",
        ]
    )


@attack
def set_attributes_of_a_mount(t: Targets) -> str | None:
    syscall("mount_setattr", -100, b"/", 0, struct.pack("=QQQQ", 0, 1, 0, 0), 32)
    return "set them"


@attack
def other_root(t: Targets) -> str | None:
    return first([lambda: rooted(lambda: os.chroot("/tmp")), lambda: rooted(lambda: syscall("pivot_root", b"/tmp", b"/tmp"))])


def rooted(change: Callable[[], object]) -> str:
    change()
    return "has another root"


@attack
def key_for_the_daemon(t: Targets) -> str | None:
    """A key in the keyring of the user, which the daemon has too."""
    key = syscall("add_key", b"user", (t.tag + "key").encode(), b"key_for_the_daemon", 18, KEYRING_OF_USER)
    syscall("keyctl", 9, key, KEYRING_OF_USER)  # KEYCTL_UNLINK
    return f"had {key}"


@attack
def session_keyring(t: Targets) -> str | None:
    return f"has {syscall('keyctl', 0, -3, 0)}"


@attack
def key_by_request(t: Targets) -> str | None:
    return f"has {syscall('request_key', b'user', (t.tag + 'secret').encode(), 0, KEYRING_OF_USER)}"


@attack
def system_v_memory(t: Targets) -> str | None:
    """The victim's segment, by its key."""
    segment = syscall("shmget", t.shm_key, 0, 0o600)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(segment, None, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "shmat")
    ctypes.memmove(address, b"system_v_memory\0", 16)
    return "wrote it"


@attack
def system_v_of_its_own(t: Targets) -> str | None:
    """What outlives the task, and counts against everybody."""
    return first(
        [
            lambda: removed("shmctl", syscall("shmget", 0, 4096, 0o1600)),
            lambda: removed("semctl", syscall("semget", 0, 1, 0o1600)),
            lambda: removed("msgctl", syscall("msgget", 0, 0o1600)),
        ]
    )


def removed(control: str, number: int) -> str:
    """Not left behind by us; an attacker would."""
    arguments = (0, IPC_RMID) if control == "semctl" else (IPC_RMID, 0)
    syscall(control, number, *arguments, 0)
    return f"had {number}"


@attack
def message_queue(t: Targets) -> str | None:
    name = (t.tag + "queue").encode()
    fd = syscall("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0)
    syscall("mq_unlink", name)
    return f"had {fd}"


@attack
def aio_of_the_host(t: Targets) -> str | None:
    """io_setup(2): fs.aio-max-nr is one number for the whole machine, and its databases live on it."""
    context = ctypes.c_ulong()
    syscall("io_setup", 128, ctypes.byref(context))
    return f"has {context.value:#x}"


@attack
def bpf(t: Targets) -> str | None:
    attributes = struct.pack("=IIII", 2, 4, 4, 1).ljust(128, b"\0")  # a small array
    return f"has {syscall('bpf', 0, attributes, 128)}"


@attack
def kernel_modules_and_boot(t: Targets) -> str | None:
    return first(
        [
            lambda: done(syscall("init_module", 0, 0, b"")),
            lambda: done(syscall("kexec_load", 0, 0, 0, 0)),
            lambda: done(syscall("reboot", 0xFEE1DEAD, 672274793, 0, 0)),  # CAD off: what anybody could undo
            lambda: done(syscall("swapon", b"/x", 0)),
            lambda: done(syscall("acct", 0)),
        ]
    )


def done(result: object) -> str:
    return "done"


@attack
def clock_and_name(t: Targets) -> str | None:
    return first(
        [
            lambda: done(syscall("sethostname", b"hostile", 7)),
            lambda: done(syscall("settimeofday", struct.pack("=qq", 1, 0), 0)),
            lambda: done(syscall("clock_settime", 0, struct.pack("=qq", 1, 0))),
        ]
    )


@attack
def ports(t: Targets) -> str | None:
    return first([lambda: done(syscall("iopl", 3)), lambda: done(syscall("ioperm", 0x70, 1, 1))])


@attack
def kernel_log(t: Targets) -> str | None:
    return f"{syscall('syslog', 10, 0, 0)} bytes" if syscall("syslog", 3, ctypes.create_string_buffer(4096), 4096) else None


@attack
def randomisation_off(t: Targets) -> str | None:
    """personality(2): what an exploit asks for first, and setuid programs inherit not."""
    syscall("personality", 0x0040000 | 0x0400000)
    return "off, and readable is executable"


@attack
def local_descriptor_table(t: Targets) -> str | None:
    return f"wrote {syscall('modify_ldt', 1, struct.pack('=IIII', 0, 0, 0, 0x51), 16)}"


@attack
def x32_numbers(t: Targets) -> str | None:
    return f"pid {syscall(X32_BIT | 39)}"


def opened(path: str) -> str:
    os.open(path, os.O_RDWR | os.O_NONBLOCK)
    return f"has {path}"


@attack
def device_nodes(t: Targets) -> str | None:
    names = ("mem", "kmem", "port", "kvm", "fuse", "net/tun", "vhost-net", "vsock", "uinput", "sda", "vda", "loop-control",
             "console", "tty0", "tty1", "vcs", "rfkill", "snapshot", "userfaultfd", "dri/card0")  # fmt: skip
    return first([partial(opened, f"/dev/{name}") for name in names])


@attack
def become_root(t: Targets) -> str | None:
    """A setuid program gives nothing, and cannot: no new privileges."""
    kept = ctypes.CDLL(None).prctl(39, 0, 0, 0, 0)
    return None if kept == 1 else "new privileges are possible"


@attack
def capabilities(t: Targets) -> str | None:
    """None in any set: what root in a namespace would have."""
    sets = ctypes.create_string_buffer(24)  # effective, permitted, inheritable: the low halves, then the high ones
    syscall("capget", struct.pack("=Ii", 0x20080522, 0), sets)
    return f"{sets.raw.hex()}" if any(sets.raw) else None


@attack
def capabilities_of_the_daemon(t: Targets) -> str | None:
    """What a unit gives the daemon is handed down to all that it starts (AmbientCapabilities=)."""
    libc = ctypes.CDLL(None)
    kept = [number for number in range(64) if libc.prctl(47, 1, number, 0, 0) == 1]  # PR_CAP_AMBIENT_IS_SET
    return f"{kept}" if kept else None


@attack
def capabilities_in_a_program(t: Targets) -> str | None:
    """What exec gives back, where it is root in its namespace or the bounding set allows."""
    if os.geteuid() == 0 and t.uid != 0:
        return "root in there"
    raise absent("not root")


@attack
def no_filter(t: Targets) -> str | None:
    """Whether there is one at all: PR_GET_SECCOMP."""
    return "no filter" if ctypes.CDLL(None).prctl(21, 0, 0, 0, 0) != 2 else None


@attack
def kinder_filter(t: Targets) -> str | None:
    """A filter on top that allows everything: the strictest word counts."""
    program = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    syscall("seccomp", 1, 0, struct.pack("@HP", 1, ctypes.addressof(program)))
    return f"has {syscall('socket', 2, 1, 0)}"


@attack
def wider_landlock(t: Targets) -> str | None:
    """A ruleset on top that allows everything."""
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    ruleset = syscall("landlock_create_ruleset", struct.pack("=Q", 0b1100), 8, 0)  # reading
    syscall("landlock_add_rule", ruleset, 1, struct.pack("=Qi", 0b1100, os.open("/", os.O_PATH)), 0)
    syscall("landlock_restrict_self", ruleset, 0)
    with open(t.secret) as file:
        return "read it" if t.canary in file.read() else None


@attack
def another_user(t: Targets) -> str | None:
    tries: list[Callable[[], object]] = [lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.setresuid(0, 0, 0)]
    return first([partial(changed, each) for each in tries])


def changed(change: Callable[[], object]) -> str:
    change()
    return "somebody else now"


@attack
def quotas_of_the_host(t: Targets) -> str | None:
    """quotactl(2), Q_SYNC of everything: anybody may."""
    return done(syscall("quotactl", 0x800001 << 8, 0, 0, 0))
