"""What does a daemon tell while the machine's clock is set back under it, and is that true?

`live_through` lives through it with a daemon that runs, and returns what it was told; `check` judges that. How the clock is set
is the caller's: in a kernel of its own, or in front of the daemon alone.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import httpx

from tests.support.daemon import Daemon, outcome_of, output_of, prompt_of, state_of, wait_until

JUMPS: Final = {"five minutes": 300.0, "three days": 3 * 86_400.0}
LIMITS: Final = "[limits]\nrate = 1\nburst = 40\n"
ASK: Final = ["ask", "Proceed? [y/N] "]
TIMEOUT_S: Final = 300  # of the commands that ask
DEADLINE_S: Final = 2
SLACK_S: Final = 60.0  # between a moment and its record, on a busy machine; a jump is longer


def live_through(daemon: Daemon, set_back: Callable[[float], object], now: Callable[[], float]) -> dict[str, Any]:
    """`set_back`: by so many seconds. `now`: what the daemon's clock says, as seconds of the epoch."""
    told: dict[str, Any] = {"jumps": {}}
    kept = daemon.run([["print", "kept\n"]])
    asked = daemon.run([ASK] * (len(JUMPS) + 1), timeout_seconds=TIMEOUT_S)
    for name, back_s in JUMPS.items():
        hanging = daemon.run([["hang"]], wait=False, timeout_seconds=DEADLINE_S)
        began = time.monotonic()
        set_back(back_s)
        answered = daemon.answer(asked, name, wait=True)
        before_s = now()
        assert answered.status_code == 200, answered.text
        asked = answered.json()["task"]
        done = daemon.run([["print", name]])
        late = _ended(daemon, hanging["id"])
        told["jumps"][name] = {
            "state": state_of(asked),
            "question": _left_s(prompt_of(asked)["deadline"], before_s),
            "updated": _left_s(asked["status"]["timestamp"], before_s),
            "done": (state_of(done), output_of(done).strip(), _left_s(done["status"]["timestamp"], before_s)),
            "late": (outcome_of(late)["reason"], time.monotonic() - began),
        }
    done = daemon.answer(asked, "the last", wait=True).json()["task"]
    told["answers"] = [line for line in output_of(done).splitlines() if line.startswith("answer: ")]
    told["end"] = state_of(done)
    told["refused"] = refused = _use_up(daemon)
    time.sleep(float(refused["Retry-After"]))  # what it said is what is tried
    with daemon.client() as client:
        told["after the wait"] = client.get("/tasks").status_code
    daemon.stop()
    daemon.start()  # before the times of what is on record; it tidies up when it starts
    with daemon.client() as client:
        told["ready"] = client.get("/readyz").json()
        told["listed"] = sorted(task["id"] for task in client.get("/tasks?pageSize=50").json()["tasks"])
        told["kept"] = output_of(client.get(f"/tasks/{kept['id']}").json())
    told["known"] = sorted((kept["id"], done["id"]))
    told["seqs"] = _numbers(daemon)
    return told


def check(told: dict[str, Any]) -> None:
    """Everything that a jump must not change, and what has to follow the clock."""
    for name, jump in told["jumps"].items():
        assert jump["state"] == "INPUT_REQUIRED", name
        assert 0 < jump["question"] <= TIMEOUT_S + SLACK_S, (name, jump)
        assert abs(jump["updated"]) < SLACK_S, (name, jump)
        state, text, updated = jump["done"]
        assert (state, text) == ("COMPLETED", name)
        assert abs(updated) < SLACK_S, (name, jump)
        reason, took_s = jump["late"]
        assert reason == "timeout", name
        assert took_s < DEADLINE_S + SLACK_S, name
    assert told["answers"] == [f"answer: {json.dumps(text)}" for text in (*JUMPS, "the last")]
    assert told["end"] == "COMPLETED"
    assert 1 <= int(told["refused"]["Retry-After"]) <= 5
    assert told["after the wait"] == 200
    assert told["ready"]["ready"] is True, told["ready"]
    assert set(told["known"]) <= set(told["listed"])
    assert told["kept"].strip() == "kept"
    assert told["seqs"]
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in told["seqs"]), told["seqs"]


def _left_s(moment: str, now_s: float) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() - now_s


def _ended(daemon: Daemon, task_id: str) -> dict[str, Any]:
    """The task once it has, asked for seldom: what is asked counts."""
    return wait_until(
        lambda: task if state_of(task := daemon.get(task_id)) == "FAILED" else time.sleep(1), timeout_s=60, what="its end"
    )


def _use_up(daemon: Daemon) -> dict[str, str]:
    """Ask until it is too much, and the headers of that refusal."""
    with daemon.client() as client:
        for _ in range(1000):
            answer: httpx.Response = client.get("/tasks?pageSize=1")
            if answer.status_code == 429:
                return {"Retry-After": answer.headers["Retry-After"]}
    raise AssertionError("nobody is ever refused")


def _numbers(daemon: Daemon) -> list[list[int]]:
    """Of each task's events."""
    with contextlib.closing(sqlite3.connect(f"file:{daemon.store}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT task, seq FROM events ORDER BY task, seq").fetchall()
    found: dict[int, list[int]] = {}
    for task, seq in rows:
        found.setdefault(task, []).append(seq)
    return list(found.values())
