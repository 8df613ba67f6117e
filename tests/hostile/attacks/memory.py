"""Can a task read or write another process's memory, descriptors or traces?"""

from __future__ import annotations

import ctypes
import os

from tests.hostile.attacks.craft import Targets, attack, read, syscall

PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_DETACH = 16, 0x4206, 17


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@attack
def trace_victim(t: Targets) -> str | None:
    syscall("ptrace", PTRACE_SEIZE, t.victim, 0, 0)
    return "traces it"


@attack
def trace_daemon(t: Targets) -> str | None:
    syscall("ptrace", PTRACE_SEIZE, t.daemon, 0, 0)
    return "traces it"


@attack
def trace_spawner(t: Targets) -> str | None:
    syscall("ptrace", PTRACE_SEIZE, t.spawner, 0, 0)
    return "traces it"


@attack
def trace_parent(t: Targets) -> str | None:
    syscall("ptrace", PTRACE_SEIZE, t.parent, 0, 0)
    return "traces it"


@attack
def trace_other_task(t: Targets) -> str | None:
    syscall("ptrace", PTRACE_SEIZE, t.other_task, 0, 0)
    return "traces it"


@attack
def read_memory_of_victim(t: Targets) -> str | None:
    buffer = ctypes.create_string_buffer(64)
    here = _IoVector(ctypes.addressof(buffer), 64)
    there = _IoVector(t.victim_address, 64)
    syscall("process_vm_readv", t.victim, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return f"{buffer.value!r}"


@attack
def read_memory_of_daemon(t: Targets) -> str | None:
    """Blind: any address; EFAULT would mean that it may."""
    buffer = ctypes.create_string_buffer(8)
    here, there = _IoVector(ctypes.addressof(buffer), 8), _IoVector(4096, 8)
    try:
        syscall("process_vm_readv", t.daemon, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    except OSError as error:
        if error.errno == 14:
            return "may read it"
        raise
    return "read it"


@attack
def write_memory_of_victim(t: Targets) -> str | None:
    buffer = ctypes.create_string_buffer(b"write_memory_of_victim", 64)
    here, there = _IoVector(ctypes.addressof(buffer), 64), _IoVector(t.victim_address, 64)
    syscall("process_vm_writev", t.victim, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return "wrote it"


@attack
def memory_file_of_victim(t: Targets) -> str | None:
    fd = os.open(f"/proc/{t.victim}/mem", os.O_RDONLY)
    return f"{os.pread(fd, 32, t.victim_address)!r}"


@attack
def memory_file_of_daemon(t: Targets) -> str | None:
    os.open(f"/proc/{t.daemon}/mem", os.O_RDONLY)
    return "opened it"


@attack
def descriptor_of_victim(t: Targets) -> str | None:
    fd = syscall("pidfd_open", t.victim, 0)
    return f"has {syscall('pidfd_getfd', fd, 0, 0)}"


@attack
def descriptor_of_daemon(t: Targets) -> str | None:
    fd = syscall("pidfd_open", t.daemon, 0)
    return f"has {syscall('pidfd_getfd', fd, 0, 0)}"


@attack
def compare_with_daemon(t: Targets) -> str | None:
    return f"{syscall('kcmp', os.getpid(), t.daemon, 0, 0, 0)}"


@attack
def advise_memory_of_victim(t: Targets) -> str | None:
    fd = syscall("pidfd_open", t.victim, 0)
    vector = _IoVector(t.victim_address & ~4095, 4096)
    syscall("process_madvise", fd, ctypes.byref(vector), 1, 20, 0)  # MADV_COLD
    return "advised"


@attack
def perf_of_victim(t: Targets) -> str | None:
    attributes = ctypes.create_string_buffer(b"\1\0\0\0\x70\0\0\0", 112)
    return f"has {syscall('perf_event_open', attributes, t.victim, -1, -1, 0)}"


@attack
def watch_faults_of_memory(t: Targets) -> str | None:
    """userfaultfd(2), the tool of kernel exploits; even without CAP_SYS_PTRACE where a sysctl allows it."""
    return f"has {syscall('userfaultfd', 1)}"  # UFFD_USER_MODE_ONLY


@attack
def proc_environ_of_victim(t: Targets) -> str | None:
    return "read it" if read(f"/proc/{t.victim}/environ") else None


@attack
def proc_environ_of_daemon(t: Targets) -> str | None:
    return "read it" if read(f"/proc/{t.daemon}/environ") else None


@attack
def proc_maps_of_spawner(t: Targets) -> str | None:
    return "read it" if read(f"/proc/{t.spawner}/maps") else None


@attack
def proc_environ_of_parent(t: Targets) -> str | None:
    return "read it" if read(f"/proc/{t.parent}/environ") else None


@attack
def proc_environ_of_first(t: Targets) -> str | None:
    return "read it" if read("/proc/1/environ") else None


@attack
def proc_environ_of_other_task(t: Targets) -> str | None:
    return "read it" if read(f"/proc/{t.other_task}/environ") else None


@attack
def proc_cmdline_of_daemon(t: Targets) -> str | None:
    return "read it" if b"sandboxd" in read(f"/proc/{t.daemon}/cmdline") else None


@attack
def proc_maps_of_daemon(t: Targets) -> str | None:
    return "read it" if read(f"/proc/{t.daemon}/maps") else None


@attack
def proc_root_of_victim(t: Targets) -> str | None:
    return f"listed {len(os.listdir(f'/proc/{t.victim}/root'))}"


@attack
def proc_root_of_first(t: Targets) -> str | None:
    return f"listed {len(os.listdir('/proc/1/root'))}"


@attack
def proc_cwd_of_daemon(t: Targets) -> str | None:
    return f"listed {len(os.listdir(f'/proc/{t.daemon}/cwd'))}"


@attack
def proc_descriptors_of_daemon(t: Targets) -> str | None:
    return f"listed {len(os.listdir(f'/proc/{t.daemon}/fd'))}"


@attack
def proc_descriptors_of_victim(t: Targets) -> str | None:
    return f"listed {len(os.listdir(f'/proc/{t.victim}/fd'))}"


@attack
def proc_status_of_daemon(t: Targets) -> str | None:
    return "read it" if b"Uid" in read(f"/proc/{t.daemon}/status") else None
