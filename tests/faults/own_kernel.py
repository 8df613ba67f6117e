"""What becomes of a daemon on a machine whose clock is set back, whose disk turns read-only, or breaks?

    python -m tests.faults.own_kernel NODE

The first process of a kernel of its own (User-Mode-Linux, `test_own_kernel.py`), for all of that is the whole machine's. The
store is on an ext4 of its own, everything else in memory; the daemon is an ordinary user's. What was seen goes to the console,
as one line of JSON.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import clock_story
from tests.faults.test_store_daemon import readiness
from tests.support.daemon import Daemon, output_of, state_of, wait_until

USER = 65_534
PLACE = Path("/mnt/host")
ASK = ["ask", "Proceed? [y/N] "]
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_EXT4_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN: from now on every call of this file system is an I/O error
_POWER_OFF = 0x4321FEDC


class UsersDaemon(Daemon):
    """It is not root's."""

    def command(self) -> list[str]:
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *super().command()]

    def wait_ready(self) -> None:
        try:
            port = wait_until(self._port, timeout_s=180, what="the daemon's port")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None
        self.url = f"http://127.0.0.1:{port}"


def main(node: str) -> dict[str, Any]:
    """Each part's findings, or how it went wrong."""
    make_machine()
    daemon = UsersDaemon(PLACE, node, extra=clock_story.LIMITS)
    (PLACE / "state").mkdir(exist_ok=True)
    mount("-t", "ext4", "/dev/ubda", str(PLACE / "state"))
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(PLACE)], check=True)
    daemon.start()
    found = {"clock": tried(lambda: clock_story.live_through(daemon, set_back, time.time))}
    found["read-only"] = tried(lambda: turn_read_only(daemon))
    found["broken"] = tried(lambda: break_disk(daemon))
    return found


def tried(part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return part()
    except Exception:
        return {"failed": traceback.format_exc()}


def make_machine() -> None:
    """What an init makes before anything else."""
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "sysfs", "sys", "/sys")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/mnt")
    Path("/dev/pts").mkdir(exist_ok=True)
    mount("-t", "devpts", "-o", "ptmxmode=0666,mode=620,gid=5", "devpts", "/dev/pts")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    PLACE.mkdir()
    os.environ["TMPDIR"] = "/mnt"


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def set_back(by_s: float) -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time() - by_s)


def turn_read_only(daemon: Daemon) -> dict[str, Any]:
    """As a kernel does to a file system with errors (`errors=remount-ro`), with everything open that is."""
    kept = daemon.run([["print", "kept\n"]])
    asked = daemon.run([ASK])
    Path("/proc/sysrq-trigger").write_text("u")
    told = wait_until(lambda: found if (found := readiness(daemon))[0] != 200 else None, timeout_s=60)
    with daemon.client() as client:
        refused = client.post("/message:send", json=daemon.message(text="echo"))
    read = output_of(daemon.get(kept["id"]))
    mount("-o", "remount,rw", str(PLACE / "state"))
    after = wait_until(lambda: found if (found := readiness(daemon))[0] == 200 else None, timeout_s=60)
    done = daemon.answer(asked, wait=True)
    return {
        "told": told,
        "refused": (refused.status_code, refused.headers.get("retry-after")),
        "read": read,
        "after": after,
        "answered": state_of(done.json()["task"]),
        "again": state_of(daemon.run([["print", "again\n"]])),
    }


def break_disk(daemon: Daemon) -> dict[str, Any]:
    """What was acknowledged is there when the file system has been mounted anew; nothing else is promised of a broken one."""
    kept = daemon.run([["print", "kept\n"]])
    asked = daemon.run([ASK])
    client = daemon.client()  # what it needs to know is on that disk
    state = PLACE / "state"
    folder = os.open(state, os.O_RDONLY)
    fcntl.ioctl(folder, _EXT4_SHUTDOWN, struct.pack("=I", _WITHOUT_LOG))
    os.close(folder)
    told = wait_until(lambda: found if (found := readiness(daemon))[0] != 200 else None, timeout_s=60)
    with client:
        refused = client.post("/message:send", json=daemon.message(text="echo"))
    daemon.kill()
    wait_until(lambda: subprocess.run(["umount", str(state)], check=False).returncode == 0, timeout_s=60, what="no use of it")
    mount("-t", "ext4", "/dev/ubda", str(state))
    daemon.start()
    return {
        "told": told,
        "refused": (refused.status_code, refused.headers.get("retry-after")),
        "kept": output_of(daemon.get(kept["id"])),
        "asked": state_of(daemon.get(asked["id"])),
        "again": state_of(daemon.run([["print", "again\n"]])),
    }


def power_off() -> None:
    sys.stdout.flush()
    ctypes.CDLL(None).reboot(_POWER_OFF)


if __name__ == "__main__":
    try:
        seen = json.dumps(main(sys.argv[1]))
        sys.stdout.write(f"\nRESULT {seen} END\n")
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        power_off()
