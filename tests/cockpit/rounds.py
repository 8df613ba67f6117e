"""Is an answer lost, doubled or typed elsewhere when a cockpit or its host is killed at a random moment, over and over?

    python -m tests.cockpit.rounds [--rounds 200] [--seed N] [--minutes M]

Each round has a real `sandboxd cockpit` start some missions on a real daemon, whose programs ask twice each; somebody answers
whatever is asked; then cockpit, host or both are killed at a random moment and started anew. Nothing is waited for between the
rounds, so several are under way at once. At the end every program's own file says what was typed into which process, and is
compared with what was answered, and with the cockpit's record. Figures are printed with the seed; the exit code is 1 when one
of those that have to be 0 is not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from sandboxd.chain import verify
from sandboxd.cockpit.ledger import STORE_NAME, open_ledger
from sandboxd.cockpit.rows import select
from sandboxd.db.connection import connect_reader
from tests.support.cockpit import Cockpit
from tests.support.daemon import RUNNER, Daemon, outcome_of, wait_until

AT_ONCE: Final = 2  # missions a round
QUESTIONS: Final = 2
END_S: Final = 240.0
FINAL: Final = ("completed", "failed", "cancelled")
HOST_DIED: Final = ("daemon-died", "spawner-died", "daemon-stopped")
RULES: Final = """
format = 1
[usual]
answers = "public"
"""


def word(nonce: int, turn: int) -> str:
    return f"word-{nonce}-{turn}"


@attrs.define
class Figures:
    """What a campaign has found; `wrong` has to be empty."""

    seed: int
    rounds: int = 0
    kills: Counter[str] = attrs.field(factory=Counter)
    missions: Counter[str] = attrs.field(factory=Counter)
    asked: int = 0
    acknowledged: int = 0
    typed: int = 0
    responded: int = 0
    closed_without: int = 0
    cut_off: int = 0  # accepted by a host that was killed before the program had read it
    unrecorded: int = 0  # typed and read, and the host was killed before that was on its disk
    resumed: int = 0
    entries: int = 0
    took_s: float = 0.0
    wrong: list[str] = attrs.field(factory=list)

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"seed {self.seed}: {self.rounds} rounds in {self.took_s:.0f} s, kills {dict(self.kills)}",
            f"missions {dict(self.missions)}, {self.resumed} of them resumed by a person; {self.asked} questions",
            f"{self.acknowledged} answers acknowledged, {self.responded} accepted, {self.typed} read by who asked",
            f"{self.closed_without} questions closed without an answer; {self.entries} audit entries, the chain is whole",
            f"ended with their host: {self.cut_off} accepted and not read, {self.unrecorded} read and not on record",
            f"lost, doubled, misdirected, without a reason: {len(self.wrong)}",
            *self.wrong[:20],
        ]


class Answerer:
    """Somebody who answers whatever is asked, and comes back when nobody is there."""

    def __init__(self, cockpit: Cockpit) -> None:
        self._cockpit = cockpit
        self._over = threading.Event()
        self.acknowledged: set[str] = set()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            try:
                with self._cockpit.client("alice") as client:
                    for prompt in client.get("/api/prompts", params={"state": "open"}).json()["prompts"]:
                        self._answer(client, prompt)
            except (httpx.HTTPError, ValueError, KeyError):
                continue  # it is being killed, or started

    def _answer(self, client: httpx.Client, prompt: dict[str, Any]) -> None:
        if prompt["phase"] != "open" or not prompt["question"].startswith("Say word-"):
            return
        said = prompt["question"].removeprefix("Say ").removesuffix(":")
        answered = client.post(f"/api/prompts/{prompt['number']}/answer", json={"payload": {"text": said}})
        if answered.status_code == httpx.codes.OK and answered.json()["outcome"] == "decided":
            self.acknowledged.add(said)


class Campaign:
    """One host, one cockpit, and all that was started."""

    def __init__(self, folder: Path, node: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.figures = Figures(seed)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        (folder / "host").mkdir()
        self.host = Daemon(folder / "host", node)
        self.host.config.write_text(self.host.config.read_text().replace('tcp = "127.0.0.1:0"', f'tcp = "127.0.0.1:{port}"'))
        self.host.start()
        hosts = {"here": (self.host.url, self.host.token)}
        self.cockpit = Cockpit(folder / "cockpit", hosts, people=("alice",), rules=RULES, top="mission-tries = 30")
        self.cockpit.start()
        self.nonces = 0

    def play(self, rounds: int, most_s: float = float("inf")) -> Figures:
        """So many rounds, or as many as the time is enough for; then every mission comes to its end, and all is compared."""
        began = time.monotonic()
        answerer = Answerer(self.cockpit)
        try:
            for _ in range(rounds):
                self._round()
                if time.monotonic() - began > most_s:
                    break
            for _ in range(AT_ONCE):  # after the last kill: is all as it was?
                self._start()
            self._settle()
        finally:
            answerer.end()
        self._verify(answerer.acknowledged)
        self.figures.took_s = time.monotonic() - began
        return self.figures

    def end(self) -> None:
        self.cockpit.end()
        self.host.end()

    def _round(self) -> None:
        self.figures.rounds += 1
        for _ in range(AT_ONCE):
            self._start()
        time.sleep(self.chance.random() * 1.5)  # the moment is meant to be anywhere
        victims = self.chance.choices([("cockpit",), ("host",), ("cockpit", "host")], [6, 3, 1])[0]
        self.figures.kills["+".join(victims)] += 1
        if "cockpit" in victims:
            self.cockpit.kill()
        if "host" in victims:
            self.host.kill()
            self.host.start()
        if "cockpit" in victims:
            self.cockpit.start()

    def _start(self) -> None:
        self.nonces += 1
        steps = [["keep", f"Say {word(self.nonces, turn)}: ", f"said-{self.nonces}"] for turn in range(1, QUESTIONS + 1)]
        command = ["node", RUNNER, "--request", self.host.request(steps, f"round-{self.nonces}")]
        order = {"host": "here", "adapter": "sandbox-agent-runner", "mode": "plan", "command": command}
        try:
            with self.cockpit.client("alice") as client:
                client.post("/api/missions", json=order | {"input_mode": "text-line", "timeout_seconds": 600})
        except httpx.HTTPError as error:
            self.figures.wrong.append(f"a cockpit that was not killed did not answer: {error}")

    def _missions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        with self.cockpit.client("alice") as client:
            while True:
                query = {"limit": "200"} | ({"before": str(found[-1]["number"])} if found else {})
                page = client.get("/api/missions", params=query).json()["missions"]
                found += page
                if len(page) < 200:
                    return found

    def _settle(self) -> None:
        """Every mission comes to its end; what is paused is resumed by a person, as it says."""
        resumed = set[int]()

        def all_ended() -> bool:
            for mission in self._missions():
                if mission["state"] == "paused" and mission["number"] not in resumed and not mission["questions"]:
                    if not (mission["reason"] and mission["way_out"]):
                        self.figures.wrong.append(f"mission {mission['number']} is paused without a reason or a way out")
                    with self.cockpit.client("alice") as client:
                        client.post(f"/api/missions/{mission['number']}/resume")
                    resumed.add(mission["number"])
            return all(mission["state"] in FINAL for mission in self._missions())

        try:
            wait_until(all_ended, timeout_s=END_S, what="the end of every mission")
        except AssertionError:
            left = [(it["number"], it["state"], it["reason"]) for it in self._missions() if it["state"] not in FINAL]
            self.figures.wrong.append(f"missions that did not end: {left[:10]}")
        self.figures.resumed = len(resumed)

    def _verify(self, acknowledged: set[str]) -> None:
        figures = self.figures
        missions = self._missions()
        figures.missions.update(mission["state"] for mission in missions)
        figures.wrong += [
            f"mission {it['number']} {it['state']} says no reason"
            for it in missions
            if not it["reason"] and it["state"] != "completed"
        ]
        figures.acknowledged = len(acknowledged)
        died = self._tasks(missions)
        said = self._said()
        accepted = self._records(died, said)
        for text in acknowledged:
            nonce = int(text.split("-")[1])
            if text not in accepted and nonce not in died:
                figures.wrong.append(f"lost: {text} was acknowledged, and is not on record as accepted")
        with open_ledger(self.cockpit.state) as ledger:
            figures.entries = verify(ledger.after(0)).count

    def _tasks(self, missions: list[dict[str, Any]]) -> set[int]:
        """The programs that ended with their host; a mission has one task at most."""
        died = set[int]()
        with self.host.client() as client:
            for mission in missions:
                tasks = client.get("/tasks", params={"contextId": mission["mission_id"]}).json()["tasks"]
                if len(tasks) > 1:
                    self.figures.wrong.append(f"mission {mission['number']} was started {len(tasks)} times")
                for task in tasks:
                    if "message" in task["status"] and outcome_of(task).get("reason") in HOST_DIED:
                        died.add(int(mission["command"][-1].rpartition("-")[2].removesuffix(".json")))
        return died

    def _said(self) -> set[str]:
        """What the programs have read: each its own words, in order, once, in one process."""
        read = set[str]()
        for nonce in range(1, self.nonces + 1):
            file = self.host.workspace / f"said-{nonce}"
            lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
            words = [text for _, text in lines]
            if words != [word(nonce, turn) for turn in range(1, len(words) + 1)] or len({pid for pid, _ in lines}) > 1:
                self.figures.wrong.append(f"program {nonce} has read {lines}")
            read.update(words)
        self.figures.typed = len(read)
        return read

    def _records(self, died: set[int], said: set[str]) -> set[str]:
        """The cockpit's own record against what the programs have read; the words that are accepted by it."""
        with closing(connect_reader(self.cockpit.state / STORE_NAME)) as connection:
            records = select(connection, "ORDER BY number")
        accepted = set[str]()
        for record in records:
            approval, text = record.approval, record.envelope["prompt"].removeprefix("Say ").removesuffix(":")
            nonce, wrong = int(text.split("-")[1]), self.figures.wrong
            self.figures.asked += 1
            if approval.phase != "closed":
                wrong.append(f"{text} is not closed: {approval.phase}, {approval.reason}")
            elif approval.status == "responded":
                self.figures.responded += 1
                accepted.add(text)
                if not approval.accepted:
                    wrong.append(f"{text} is responded by no message")
                if text not in said and nonce not in died:
                    wrong.append(f"lost: {text} is on record as accepted, and was not read")
                self.figures.cut_off += text not in said
            else:
                self.figures.closed_without += 1
                if not approval.reason:
                    wrong.append(f"{text} closed as {approval.status} without a reason")
                if text in said and nonce not in died:
                    wrong.append(f"{text} was read, and is on record as {approval.status}: {approval.reason}")
                self.figures.unrecorded += text in said
        return accepted


def main() -> int:
    """Play, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no round after so many")
    given = parser.parse_args()
    node = os.environ.get("SANDBOXD_NODE") or shutil.which("node")
    if node is None:
        raise SystemExit("NOT TESTED HERE: there is no node")
    with tempfile.TemporaryDirectory(prefix="cockpit-rounds-") as folder:
        campaign = Campaign(Path(folder), node, given.seed)
        try:
            figures = campaign.play(given.rounds, given.minutes * 60)
        finally:
            campaign.end()
    print("\n".join(figures.lines()))  # noqa: T201 - whoever runs it reads its standard output
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
