"""Can a task get past what the kernel keeps for each of its processes?"""

from __future__ import annotations

import ctypes
import resource

from tests.hostile.attacks.craft import Targets, attack

RLIMIT_NICE, RLIMIT_RTPRIO = 13, 14
PR_SCHED_CORE = 62


@attack
def core_dump(t: Targets) -> str | None:
    return raised(resource.RLIMIT_CORE, 1 << 20)


@attack
def core_dump_for_a_helper(t: Targets) -> str | None:
    """A host whose core_pattern is a program runs it as root for whoever crashes, with a limit of 0 too; with 1 it does not."""
    found = resource.getrlimit(resource.RLIMIT_CORE)
    return None if found == (t.core_bytes, t.core_bytes) else f"{found}"


@attack
def processor_of_its_own(t: Targets) -> str | None:
    """PR_SCHED_CORE: nobody else runs beside it on the other thread of a core."""
    return cookie()


def cookie() -> str:
    ctypes.set_errno(0)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SCHED_CORE, 1, 0, 1, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SCHED_CORE")
    return "has it"


@attack
def priority_by_its_limits(t: Targets) -> str | None:
    """A host may let its users be real-time (limits.conf, for sound); a task is none of them."""
    found = [resource.getrlimit(kind)[1] for kind in (RLIMIT_NICE, RLIMIT_RTPRIO)]
    return f"{found}" if any(found) else None


@attack
def more_files_than_allowed(t: Targets) -> str | None:
    return raised(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1] + 1)


def raised(kind: int, value: int) -> str | None:
    try:
        resource.setrlimit(kind, (value, value))
    except ValueError:  # how Python spells EPERM here
        return None
    return "may"
