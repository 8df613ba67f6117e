"""What of this host may a run see, besides its workspace?

The programs and libraries of the system, those files of /etc that programs need to start and to speak a person's language, and
devices that hold nothing. Not the rest of /etc: operators keep secrets there. An operator adds folders by `[isolation] read`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

SYSTEM: Final = "/usr"
TMP: Final = "/tmp"  # noqa: S108 - no shared folder: it is mounted for one run, in namespaces that only that run is in
TOP: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # symlinks into /usr, or folders of their own
ETC: Final = (
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "environment",
    "gitconfig",
    "group",
    "inputrc",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "manpath.config",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
    "vim",
    "wgetrc",
)
ETC_NETWORK: Final = ("gai.conf", "host.conf", "hosts", "resolv.conf")
# Without a /proc of the run's own, or a network of its own: facts of the machine, no process but its leader's own.
PROC: Final = (
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
)
# Of the leader's own folder in /proc: not its `net` (and that of its `task`), which tells all sockets of the host.
PROC_SELF: Final = (
    *("auxv", "cgroup", "cmdline", "comm", "environ", "fd", "fdinfo", "io", "limits", "maps", "oom_score", "oom_score_adj"),
    *("pagemap", "personality", "sched", "schedstat", "smaps", "smaps_rollup", "stat", "statm", "status", "wchan"),
)
DEVICES_READ: Final = ("/dev/full", "/dev/random", "/dev/urandom", "/dev/zero")
DEVICES_WRITE: Final = ("/dev/null", "/dev/tty")


def etc(*, network: bool) -> tuple[str, ...]:
    """The files and folders of /etc."""
    return tuple(f"/etc/{name}" for name in ETC + (ETC_NETWORK if network else ()))


def own_proc() -> tuple[str, ...]:
    """The files and folders of /proc that are the asking process's own, where not all of /proc is the run's."""
    return tuple(f"/proc/self/{name}" for name in PROC_SELF)


def is_seen(path: str, read: tuple[str, ...]) -> bool:
    """Whether a program's real path is below what every run may execute anyway."""
    real = Path(path)
    return any(real.is_relative_to(folder) for folder in (SYSTEM, *TOP, *read))
