"""Which attacks get through, seen from inside a task?

Each one runs in a child of its own, with a bound, and its result is one line of JSON on stdout. The request says who the
victims are and which attacks to try.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import select
import signal
import sys
import time
from types import SimpleNamespace

from tests.hostile.attacks import processes, resources
from tests.hostile.attacks.craft import ATTACKS, BOMBS, Attack, Targets

_NAMES = ("files", "limits", "memory", "modes", "processes", "resources", "signals", "sockets", "surface", "terminal", "writes")
ROOMS = tuple(importlib.import_module(f"tests.hostile.attacks.{name}") for name in _NAMES)  # they register on import
BOUND_S = 20.0


def main() -> None:
    born_with = [f"{fd}" for fd in range(3, 4096) if is_open(fd)]
    with open(sys.argv[sys.argv.index("--request") + 1]) as file:
        request = json.load(file)
    targets = SimpleNamespace(**request["targets"], born_with=born_with, parent=os.getppid(), leader=os.getpid())
    if wait_for := request.get("stay"):
        told = {
            "filled": resources.fill_and_keep(request.get("fill", 0)),
            "named": resources.name_many(request.get("names", 0)),
            "children": resources.fork_as_many_as(request.get("forks", 0)),
        }
        hoarded = resources.hoard_descriptors() if request.get("hoard") else 0
        say({"up": os.getpid(), **told, "hoarded": hoarded})
        stay(wait_for)
        return
    known = ATTACKS | BOMBS
    names = request["only"]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # kill(-1) reaches the runner too, and who ends itself judges nothing
    for name in names:
        say({"attack": name, **judge(known[name], targets)})
    say({"done": len(names)})
    if request.get("leave"):
        processes.leave_a_tree(request["leave"])


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def stay(path: str) -> None:
    """A task that is only there, to be somebody's victim, until the file appears."""
    while not os.path.exists(path):
        time.sleep(0.02)
    say({"done": 0})


def say(line: dict[str, object]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def fork() -> int:
    """fork(2), with patience: an attack before this one may have used up the processes, and neighbours' come and go."""
    ends_at = time.monotonic() + BOUND_S
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            if time.monotonic() >= ends_at:
                raise
            time.sleep(0.05)


def fork_beside(strangers: set[int]) -> int:
    """fork(2), but never with the number of one of these: in a pid namespace of its own it would attack itself."""
    while True:
        child = fork()
        if child == 0:
            if os.getpid() in strangers:
                os._exit(0)
            return 0
        if child not in strangers:
            return child
        os.waitpid(child, 0)


def judge(run: Attack, targets: Targets) -> dict[str, object]:
    """`got`: what it got hold of. `error`: how it was refused. `killed`, `hung`: how it ended instead."""
    ours, theirs = os.pipe()
    child = fork_beside({getattr(targets, name, 0) for name in ("daemon", "spawner", "victim", "victim_group", "other_task")})
    if child == 0:
        try:
            os.close(ours)
            os.write(theirs, json.dumps(attempt(run, targets)).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    told = b""
    ends_at = time.monotonic() + BOUND_S
    while select.select([ours], [], [], max(0, ends_at - time.monotonic()))[0]:
        piece = os.read(ours, 65_536)
        if not piece:
            break
        told += piece
        if told.endswith(b"}"):
            break  # it may have left children that hold the pipe
    hung = not told and time.monotonic() >= ends_at
    if hung:
        os.kill(child, signal.SIGKILL)
    os.close(ours)
    _, status = os.waitpid(child, 0)
    if hung:
        return {"hung": True}
    if told:
        result: dict[str, object] = json.loads(told)
        return result
    return {"killed": signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exited"}


def attempt(run: Attack, targets: Targets) -> dict[str, object]:
    try:
        got = run(targets)
    except OSError as error:
        return {"error": errno.errorcode.get(error.errno or 0, str(error.errno)), "why": str(error.strerror)}
    except Exception as error:  # an attack with a bug must not look like one that was stopped
        return {"bug": f"{type(error).__name__}: {error}"}
    return {"got": got[:300]} if got is not None else {"error": "nothing"}


if __name__ == "__main__":
    main()
