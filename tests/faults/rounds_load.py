"""What do clients do to a daemon that may be killed at any moment, and what were they told until then?

Threads that send commands, follow each by SSE and answer its questions, twice at once. Everything that the daemon acknowledged
is kept: the tasks, each event with its number, each answer that was accepted. `verify` asks a later daemon for all of it.
"""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from tests.support.daemon import HITL, Daemon, output_of, prompt_of, state_of

TERMINAL: Final = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
LIVE_MAX: Final = 10  # tasks that one load has under way
QUESTIONS: Final = 6
SHORT_LINES: Final = 40

# `$0 --request FILE`: what the request file says. Every answer that was read goes into a file of its task, one line each.
RUNNER: Final = f"""
read -r kind <"$2"
case $kind in
short) seq 1 {SHORT_LINES}; printf 'end of %s' "$AIWG_A2A_TASK_ID" ;;
flood) seq 1 100000 ;;
ask)
    for n in $(seq 1 {QUESTIONS}); do
        read -r -p "Name $n: " line || exit 3
        echo "$line" >>"answers/$AIWG_A2A_TASK_ID"
    done ;;
quiet)
    trap '' TERM INT HUP
    (trap '' TERM INT HUP; setsid sleep 600 & setsid bash -c 'setsid sleep 600 & sleep 600' &)
    echo up; sleep 600 ;;
churn)
    trap '' TERM INT HUP
    setsid bash "$0" again &
    echo up; sleep 600 ;;
esac
"""
# A branch that is another process in another session twenty times a second.
CHURN: Final = """
if [ "${1-}" = again ]; then
    trap '' TERM INT HUP
    sleep 0.05
    setsid bash "$0" again &
    exit
fi
"""
POLICY: Final = """
format = 1
adapter = "sandbox-agent-runner"

[command]
program = "bash"
argv = ["bash", "runner.sh", "--request", "{request}"]

[command.env]
PATH = "/usr/bin:/bin"
ROUNDS_MARK = "@MARK@"

[hole.mode]
one-of = ["plan"]

[hole.request]
path-under = ["requests"]

[limits]
timeout = { default = "15m", max = "15m" }
processes = 200
@MORE@
"""


@attrs.define
class Told:
    """What one task's clients were told before the daemon died."""

    task_id: str
    kind: str
    events: dict[int, str] = attrs.field(factory=dict)  # number → the event as it stood on the wire
    accepted: dict[str, str] = attrs.field(factory=dict)  # prompt id → the answer that was acknowledged
    tried: dict[str, int] = attrs.field(factory=dict)  # prompt id → 200s that it got


def prepare(daemon: Daemon) -> None:
    """Put the runner and its requests into the workspace."""
    (daemon.workspace / "requests").mkdir()
    (daemon.workspace / "answers").mkdir()
    (daemon.workspace / "runner.sh").write_text(CHURN + RUNNER)
    for kind in ("short", "flood", "ask", "quiet", "churn"):
        (daemon.workspace / "requests" / kind).write_text(f"{kind}\n")


def send(daemon: Daemon, client: httpx.Client, kind: str, *, wait: bool = False, text_line: bool = True) -> dict[str, Any]:
    """One command; the task as the send returns it. Raises what httpx does when the daemon is gone."""
    envelope = daemon.envelope(
        f"requests/{kind}",
        command=["bash", "runner.sh", "--request", f"requests/{kind}"],
        timeout_seconds=600,
        input_mode="text-line" if text_line else ...,
    )
    body = daemon.message(envelope) | {"configuration": {"returnImmediately": not wait}}
    answer = client.post("/message:send", json=body)
    answer.raise_for_status()
    task: dict[str, Any] = answer.json()["task"]
    return task


class Load:
    """Clients of one daemon's life. Begins with `with`; `leave` may be called while the daemon is dying."""

    def __init__(self, daemon: Daemon, chance: random.Random, kinds: tuple[str, ...]) -> None:
        self.told: dict[str, Told] = {}
        self.faults: list[str] = []  # of these clients, or of what they were told: there are to be none
        self._daemon = daemon
        self._seed = chance.random()
        self._kinds = kinds
        self._over = threading.Event()
        self._live = threading.Semaphore(LIVE_MAX)
        self._pool = ThreadPoolExecutor(LIVE_MAX + 12)
        self._client = daemon.client()

    def __enter__(self) -> Load:
        for number in range(2):
            self._begin(self._keep_sending, random.Random(f"{self._seed}-{number}"))
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._live.release(100)
        self._pool.shutdown()
        self._client.close()

    def _begin(self, what: Callable[..., None], *arguments: Any) -> None:
        def guarded() -> None:
            try:
                what(*arguments)
            except (httpx.TransportError, httpx.HTTPStatusError):
                return  # it is dead, or ends because its spawner is
            except Exception as error:
                self.faults.append(f"{what.__name__}: {error!r}")

        with suppress(RuntimeError):  # the pool is closed already: the daemon died while this was told
            self._pool.submit(guarded)

    def _keep_sending(self, chance: random.Random) -> None:
        while True:
            self._live.acquire()
            if self._over.is_set():
                return
            kind = chance.choice(self._kinds)
            task = send(self._daemon, self._client, kind, text_line=kind == "ask" or chance.random() < 0.5)
            told = self.told[task["id"]] = Told(task["id"], kind)
            self._begin(self._follow, told)

    def _follow(self, told: Told) -> None:
        try:
            for seq, data in events(self._client, told.task_id):
                told.events[seq] = data
                task = json.loads(data).get("statusUpdate")
                if task and state_of(task) == "INPUT_REQUIRED" and HITL in task["status"]["message"].get("metadata", {}):
                    for copy in ("first", "second"):
                        self._begin(self._answer, told, task, copy)
        finally:
            self._live.release()

    def _answer(self, told: Told, task: dict[str, Any], copy: str) -> None:
        prompt_id = prompt_of(task)["prompt_id"]
        text = f"{prompt_id} {copy}"
        answer = self._client.post("/message:send", json=answer_to(told.task_id, task, prompt_id, text))
        if answer.status_code == 200:
            told.accepted[prompt_id] = text
            told.tried[prompt_id] = told.tried.get(prompt_id, 0) + 1
        elif answer.status_code == 502 and "the program ended" in answer.text:
            return  # the kill of its spawner came between the question and this answer, and that is what is said
        elif answer.status_code not in (409, 503):
            self.faults.append(f"an answer to {told.task_id} got {answer.status_code} {answer.text[:200]}")


def answer_to(task_id: str, task: dict[str, Any], prompt_id: str, text: str) -> dict[str, Any]:
    message = {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "taskId": task_id,
        "contextId": task["contextId"],
        "parts": [{"data": {"text": text}, "mediaType": "application/json"}],
        "metadata": {"hitl_response_for": {"prompt_id": prompt_id, "payload": {"text": text}}},
    }
    return {"message": message, "configuration": {"returnImmediately": True}}


def events(client: httpx.Client, task_id: str, *, after: int = 1) -> Iterator[tuple[int, str]]:
    """Number and text of each event after that one, whole ones only, until the stream ends."""
    headers = {"Last-Event-ID": str(after)}
    with client.stream("POST", f"/tasks/{task_id}:subscribe", headers=headers) as answer:
        answer.raise_for_status()
        seq = 0
        for line in answer.iter_lines():
            if line.startswith("id: "):
                seq = int(line[4:])
            elif line.startswith("data: ") and seq:
                yield seq, line[6:]
                seq = 0


@attrs.define
class Verdict:
    """What is wrong after a kill; all of it is to be empty."""

    lost_events: list[str] = attrs.field(factory=list)
    lost_tasks: list[str] = attrs.field(factory=list)
    not_terminal: list[str] = attrs.field(factory=list)
    twice: list[str] = attrs.field(factory=list)
    lost_answers: list[str] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)

    def __bool__(self) -> bool:
        return any(attrs.astuple(self))


def verify(daemon: Daemon, told: dict[str, Told], verdict: Verdict) -> None:
    """Ask the daemon that was started anew for everything that the one before it acknowledged."""
    with daemon.client() as client:
        for each in told.values():
            answer = client.get(f"/tasks/{each.task_id}")
            if answer.status_code != 200:
                verdict.lost_tasks.append(f"{each.task_id}: {answer.status_code}")
                continue
            if state_of(answer.json()) not in TERMINAL:
                verdict.not_terminal.append(f"{each.task_id}: {state_of(answer.json())}")
            replayed = dict(events(client, each.task_id))
            verdict.lost_events += [
                f"{each.task_id} {seq}: told {data[:300]}, now {replayed.get(seq, 'nothing')[:300]}"
                for seq, data in each.events.items()
                if replayed.get(seq) != data
            ]
            _verify_answers(daemon, client, each, verdict)


def _verify_answers(daemon: Daemon, client: httpx.Client, told: Told, verdict: Verdict) -> None:
    for prompt_id, times in told.tried.items():
        if times > 1:
            verdict.twice.append(f"{told.task_id}: prompt {prompt_id} accepted {times} answers")
    try:
        read = (daemon.workspace / "answers" / told.task_id).read_text().splitlines()
    except FileNotFoundError:
        read = []
    prompts = [line.partition(" ")[0] for line in read]
    verdict.twice += [f"{told.task_id}: {line}" for line in read if prompts.count(line.partition(" ")[0]) > 1]
    task = client.get(f"/tasks/{told.task_id}").json()
    for prompt_id, text in told.accepted.items():
        if prompt_id in prompts and text not in read:
            verdict.lost_answers.append(f"{told.task_id}: acknowledged {text}, typed {read}")
        again = client.post("/message:send", json=answer_to(told.task_id, task, prompt_id, f"{prompt_id} again"))
        if again.status_code != 409 or "acceptedMessageId" not in again.text:
            verdict.lost_answers.append(f"{told.task_id}: {prompt_id} is forgotten: {again.status_code} {again.text[:200]}")


def lose_no_tails(daemon: Daemon, count: int) -> list[str]:
    """Run that many commands that end at once; those whose output is not whole."""
    lost: list[str] = []
    with daemon.client() as client, ThreadPoolExecutor(4) as pool:

        def run(number: int) -> None:
            task = send(daemon, client, "short", wait=True, text_line=number % 2 == 0)
            wanted = "".join(f"{n}\n" for n in range(1, SHORT_LINES + 1)) + f"end of {task['id']}"
            got = output_of(task, "terminal" if number % 2 == 0 else "stdout").replace("\r\n", "\n")
            if got != wanted or state_of(task) != "COMPLETED":
                lost.append(f"{task['id']} {state_of(task)}: {got[-60:]!r}")

        for done in [pool.submit(run, number) for number in range(count)]:
            done.result()
    return lost


def tasks_of(client: httpx.Client) -> Iterator[dict[str, Any]]:
    """Every task that is on record."""
    token = ""
    while True:
        page = client.get("/tasks", params={"pageSize": 100, "pageToken": token} if token else {"pageSize": 100}).json()
        yield from page["tasks"]
        token = page.get("nextPageToken", "")
        if not token:
            return


def policy(mark: str, more: str = "") -> str:
    """Any of the runner's kinds, with a mark in the environment that tells its processes from all others."""
    return POLICY.replace("@MARK@", mark).replace("@MORE@", more)


def has_cgroup(folder: Path) -> bool:
    """Whether the daemon's runs have cgroups of their own, as its log says."""
    lines = [line for line in (folder / "log").read_text().splitlines() if "cgroup=" in line]
    return bool(lines) and "cgroup=yes" in lines[-1]
