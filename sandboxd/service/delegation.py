"""Where do the runs' cgroups go, and where does the daemon itself?

With `Delegate=` the unit's cgroup is ours, but a cgroup that holds processes can give its children no controllers (cgroups(7),
"no internal processes"). So the daemon, while it is alone, moves into a child `supervisor` (systemd's own `DelegateSubgroup=`
is younger than the oldest systemd that we run under) and hands out the controllers to what the spawner makes beside it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from sandboxd import logs
from sandboxd.runner import cgroup

SUPERVISOR: Final = "supervisor"
CONTROLLERS: Final = ("cpu", "memory", "pids")

_log = logs.logger(__name__)


def settle() -> Path | None:
    """Move this process into its subgroup; the delegated cgroup, or None where none is ours. Call it before any child."""
    own = cgroup.own()
    if isinstance(own, cgroup.NoCgroup) or not os.access(own, os.W_OK):
        return None
    try:
        (own / SUPERVISOR).mkdir(exist_ok=True)
        (own / SUPERVISOR / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        _log.warning("Cannot settle in a cgroup of our own", cgroup=str(own), why=(error.strerror or str(error)).lower())
        return None
    for name in CONTROLLERS:
        with contextlib.suppress(OSError):  # not delegated, or not there: limits say so where they are used
            (own / "cgroup.subtree_control").write_text(f"+{name}")
    return own
