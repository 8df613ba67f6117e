"""Does the daemon live, may it be sent work, and how much of what did it do?

`/healthz` and `/readyz` are open at both doors: systemd units and load balancers hold no token, and all that they tell is a
word, the names of the checks and why one failed, without a path or an id. `/metrics` needs credentials: it tells what goes on
here, and when.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

import quart
import trio

from sandboxd import metrics
from sandboxd.a2a.model import TaskState
from sandboxd.errors import Forbidden, NotReady
from sandboxd.http.answers import answer
from sandboxd.http.doors import Check, Doors
from sandboxd.logs import logger
from sandboxd.operations.host import Caller
from sandboxd.store.base import StoreUnavailable

READY_AGE_S = 1.0  # anyone may ask, and a check writes to the disk: once a second is enough
CHECK_S = 5.0

_log = logger(__name__)


async def health(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /healthz`: the loop turns."""
    return quart.Response(b"ok\n", content_type="text/plain; charset=utf-8")


class Readiness:
    """`GET /readyz`: every check passed, at most `READY_AGE_S` ago. One run of the checks serves all who wait for it."""

    def __init__(self) -> None:
        self._running = trio.Lock()
        self._found: Mapping[str, str] = {}  # name → why it failed, empty: it passed
        self._at = float("-inf")

    async def __call__(self, doors: Doors, caller: Caller, instance: str) -> quart.Response:
        """Answer 200 or 503 with each check's name and outcome, and why it failed."""
        async with self._running:
            if trio.current_time() - self._at >= READY_AGE_S:
                self._found = {name: await _why_not(name, check) for name, check in doors.checks.items()}
                self._at = trio.current_time()
        found = {**self._found, "open": "the daemon is stopping" if doors.closing.is_set() else ""}
        checks = [{"name": name, "ok": not why} | ({"why": why} if why else {}) for name, why in found.items()]
        is_ready = not any(found.values())
        return answer({"ready": is_ready, "checks": checks}, status=200 if is_ready else 503)


async def measure(doors: Doors, caller: Caller, instance: str) -> quart.Response:
    """`GET /metrics`: what stands now is read from the store, so it is true after a restart too. For who may view all."""
    if not caller.grants.allows_everywhere("view"):
        raise Forbidden("cannot show the metrics: this needs the scope `view` on every instance")
    standing = await doors.host.store.standing()
    for state in TaskState:
        if not state.is_terminal and state is not TaskState.AUTH_REQUIRED:
            metrics.TASKS.labels(state=state.value).set(standing.tasks.get(state, 0))
    metrics.PROMPTS_OPEN.set(standing.prompts)
    metrics.UNSENT_BYTES.set(doors.host.unsent.size_bytes)
    with suppress(OSError):  # without a free one this cannot be counted; the last count stands, and is near enough
        metrics.DESCRIPTORS.set(len(os.listdir("/proc/self/fd")))
    metrics.SUBSCRIBERS.set(doors.host.followers.count)
    metrics.BUILD.labels(version=doors.version).set(1)
    return quart.Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


async def _why_not(name: str, check: Check) -> str:
    try:
        with trio.fail_after(CHECK_S):
            await check()
    except trio.TooSlowError:
        why = f"it took longer than {CHECK_S:g} s"
    except (StoreUnavailable, NotReady) as error:
        why = str(error)
    except Exception as error:  # a fault of ours: its words are for the log
        _log.warning("Cannot be ready", check=name, why=str(error) or type(error).__name__)
        return "a fault of this host; its log has more"
    else:
        return ""
    _log.warning("Cannot be ready", check=name, why=why)
    return why
