"""What is it like where no epoll watch is left? (a program that is told so by the kernel, as is all that it starts)

python -m tests.support.no_watches PROGRAM ARGUMENTS…
"""

from __future__ import annotations

import errno
import os
import platform
import sys

from sandboxd.runner import linux
from sandboxd.runner.isolation import bpf, seccomp
from sandboxd.runner.isolation.calls import MACHINES

EPOLL_CTL = {"x86_64": 233, "aarch64": 21}
EPOLL_CTL_ADD = 1


def take_them_all() -> None:
    """From here on this process gets none, for good."""
    machine = platform.machine()
    none_left = bpf.if_equal(EPOLL_CTL_ADD, bpf.give(bpf.refuse(errno.ENOSPC)))
    added = (*bpf.load_argument(1), *none_left, *bpf.give(bpf.ALLOW))
    blocks = [bpf.only_on(MACHINES[machine].audit), bpf.load_number(), bpf.if_equal(EPOLL_CTL[machine], added)]
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.apply(bpf.assemble([*blocks, bpf.give(bpf.ALLOW)]))


if __name__ == "__main__":
    take_them_all()
    os.execv(sys.argv[1], sys.argv[1:])
