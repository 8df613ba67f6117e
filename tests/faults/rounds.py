"""Is anything lost, left over or done twice when a daemon or its spawner is killed at a random moment, over and over?

    python -m tests.faults.rounds [--rounds 200] [--shorts 500] [--level none] [--seed N]

Each round starts a daemon on the same store, puts clients on it (`rounds_load`), kills the daemon, its spawner or both at a
random moment, waits for the end of every process, starts it anew and asks for everything that was acknowledged. What it finds
is looked at from outside: /proc, the wire, and the files that the commands write. Figures are printed at the end, with the
seed; the exit code is 1 when one of those that have to be 0 is not.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from sandboxd.runner import cgroup, tree
from tests.faults.rounds_load import TERMINAL, Load, Verdict, has_cgroup, lose_no_tails, policy, prepare, tasks_of, verify
from tests.support.daemon import Daemon, processes_with, state_of, wait_until

GONE_S: Final = 2.0  # what is promised
GONE_MOST_S: Final = 15.0  # what is waited before something counts as left for ever
LOAD_MOST_S: Final = 2.5
START_MOST_S: Final = 0.8
STARTING: Final = 0.1  # of the rounds: killed while it starts
BOTH: Final = 0.1  # of the rounds: daemon and spawner at the same moment, where something else than they ends a run

Say = Callable[[str], None]


@attrs.define
class Figures:
    """What a campaign has found."""

    seed: int
    level: str
    cgroup: bool = False
    kills: Counter[str] = attrs.field(factory=Counter)
    tasks: int = 0
    events: int = 0
    answers: int = 0
    shorts: int = 0
    seen: int = 0  # processes of runs, just before a kill: what is looked for can be found
    gone_s: list[float] = attrs.field(factory=list)
    left: list[str] = attrs.field(factory=list)
    late: list[str] = attrs.field(factory=list)
    tails_lost: list[str] = attrs.field(factory=list)
    cgroups_left: list[str] = attrs.field(factory=list)
    verdict: Verdict = attrs.field(factory=Verdict)

    @property
    def holds(self) -> bool:
        """Whether everything that has to be empty is; lateness is told, and judged by whoever reads it."""
        return not (self.verdict or self.left or self.tails_lost or self.cgroups_left)

    def lines(self) -> list[str]:
        verdict = self.verdict
        middle, most = (statistics.median(self.gone_s), max(self.gone_s)) if self.gone_s else (0, 0)
        return [
            f"seed {self.seed}, isolation {self.level}, {'a cgroup for each run' if self.cgroup else 'no cgroup'}",
            f"rounds: {self.kills.total()} ({', '.join(f'{who} {count}' for who, count in sorted(self.kills.items()))})",
            f"under load: {self.tasks} tasks, {self.events} events and {self.answers} answers acknowledged",
            f"acknowledged events lost: {len(verdict.lost_events)}",
            f"acknowledged tasks lost: {len(verdict.lost_tasks)}",
            f"acknowledged answers lost: {len(verdict.lost_answers)}",
            f"tasks left non-terminal: {len(verdict.not_terminal)}",
            f"answers typed twice: {len(verdict.twice)}",
            f"clients that met something else than a death: {len(verdict.faults)}",
            f"processes of runs at the moments of the kills: {self.seen}",
            f"processes left: {len(self.left)}",
            f"rounds with a process left after {GONE_S:.0f} s: {len(self.late)}",
            f"from the kill to no process: median {middle * 1000:.0f} ms, most {most * 1000:.0f} ms",
            f"cgroups left: {len(self.cgroups_left)}",
            f"short commands: {self.shorts}, tails lost: {len(self.tails_lost)}",
        ]

    def details(self) -> list[str]:
        """Everything that was found, each with what it is."""
        named = attrs.asdict(self.verdict) | {"left": self.left, "late": self.late}
        named |= {"cgroups_left": self.cgroups_left, "tails_lost": self.tails_lost}
        return [f"{name}: {text}" for name, found in named.items() for text in found]


class Campaign:
    """Rounds of one store. `folder` is empty, and stays for whoever wants to look."""

    def __init__(self, folder: Path, node: str, *, level: str = "none", seed: int | None = None) -> None:
        seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        self.figures = Figures(seed, level)
        self.mark = f"rounds-{os.getpid()}-{seed}"
        self.daemon = Daemon(folder, node, policy(self.mark))
        self.daemon.config.write_text(self.daemon.config.read_text().replace('level = "none"', f'level = "{level}"'))
        prepare(self.daemon)
        self._chance = random.Random(seed)
        self._level = level

    def run(self, rounds: int, shorts: int, say: Say = lambda _: None) -> Figures:
        """All of it; the daemon is stopped at the end."""
        self.daemon.start()
        self.figures.cgroup = has_cgroup(self.daemon.folder)
        self.figures.tails_lost = lose_no_tails(self.daemon, shorts)
        self.figures.shorts = shorts
        for number in range(1, rounds + 1):
            known = set(self.figures.details())
            say(f"round {number}: {self._round()}")
            for detail in self.figures.details():
                if detail not in known:
                    say(f"  {detail}")
        with self.daemon.client() as client:
            open_ones = [task["id"] for task in tasks_of(client) if state_of(task) not in TERMINAL]
        self.figures.verdict.not_terminal += open_ones
        assert self.daemon.stop() == 0
        self.figures.left += [f"after the last stop: {pid}" for pid in processes_with(self.mark)]
        if self.figures.cgroup:
            with suppress(AssertionError):  # another test's daemon may be dying beside us
                wait_until(lambda: not cgroups_left())
            self.figures.cgroups_left = cgroups_left()
        return self.figures

    def _round(self) -> str:
        chance, figures = self._chance, self.figures
        kinds = (*["ask"] * 6, "short", "short", "flood", "quiet", *(["churn"] if self._ends_anything else []))
        victim = "both" if self._ends_anything and chance.random() < BOTH else chance.choice(("daemon", "spawner"))
        with Load(self.daemon, chance, kinds) as load:
            time.sleep(chance.uniform(0, LOAD_MOST_S))  # the moment is what is random here: there is nothing to wait for
            self._kill(victim)
        if chance.random() < STARTING:
            victim += ", and as it starts again"
            self.daemon.launch()
            time.sleep(chance.uniform(0, START_MOST_S))
            self.daemon.kill()
        figures.kills[victim] += 1
        self.daemon.start()
        if victim.startswith("both"):
            figures.left += [f"{victim} killed, and the next daemon is ready: {pid}" for pid in processes_with(self.mark)]
        figures.tasks += len(load.told)
        figures.events += sum(len(told.events) for told in load.told.values())
        figures.answers += sum(len(told.accepted) for told in load.told.values())
        figures.verdict.faults += load.faults
        verify(self.daemon, load.told, figures.verdict)
        took = f", {figures.gone_s[-1] * 1000:.0f} ms until nothing was left" if figures.gone_s else ""
        return f"{victim} killed, {len(load.told)} tasks{took}"

    @property
    def _ends_anything(self) -> bool:
        """Whether a tree that forks without end, and one whose daemon and spawner both die, are ended all the same."""
        return self.figures.cgroup or self._level == "strict"

    def _kill(self, victim: str) -> None:
        process = self.daemon.process
        assert process is not None
        self.figures.seen += len(processes_with(self.mark))
        below = {proc.key for proc, _ in tree.descendants(tree.look_at_all(), process.pid)}
        began = time.monotonic()
        if victim != "daemon":
            os.kill(spawner_of(process.pid), signal.SIGKILL)
        if victim != "spawner":
            process.kill()
        if victim != "both":  # then it is the next start that ends what is left
            self._see_gone(victim, began)
        process.wait(timeout=30)  # without its spawner it ends by itself
        if victim != "both":
            with suppress(AssertionError):
                wait_until(lambda: not any(is_there(*key) for key in below), timeout_s=GONE_MOST_S)
            self.figures.left += [f"{victim} killed: {pid} of the daemon's" for pid, began in below if is_there(pid, began)]

    def _see_gone(self, victim: str, began: float) -> None:
        """Wait for the end of every run's processes, and note how long it took."""
        try:
            wait_until(lambda: not processes_with(self.mark), timeout_s=GONE_MOST_S)
        except AssertionError:
            self.figures.left += [f"{victim} killed: {pid}" for pid in processes_with(self.mark)]
            return
        took_s = time.monotonic() - began
        self.figures.gone_s.append(took_s)
        if took_s > GONE_S:
            self.figures.late.append(f"{victim} killed: {took_s:.2f} s")


def is_there(pid: int, started: int) -> bool:
    """Whether that very process lives; a zombie does not."""
    proc = tree.look(pid)
    return proc is not None and proc.started == started and not proc.is_zombie


def spawner_of(daemon_pid: int) -> int:
    """The child of the daemon that starts the runs."""
    for proc, child in tree.descendants(tree.look_at_all(), daemon_pid):
        with suppress(OSError):
            if proc is child and b"sandboxd.runner.spawner" in Path(f"/proc/{proc.pid}/cmdline").read_bytes():
                return proc.pid
    raise AssertionError(f"the daemon {daemon_pid} has no spawner")


def cgroups_left() -> list[str]:
    """The cgroups of spawners that are dead: nobody holds them, and nobody has removed them."""
    own = cgroup.own()
    if isinstance(own, cgroup.NoCgroup):
        return []
    return [str(path) for path in own.glob("sandboxd-" + "?" * 12) if not is_held(path)]


def is_held(path: Path) -> bool:
    """Whether a spawner lives that made it; one that is gone meanwhile is nobody's trouble either."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The long form, for a person."""
    parser = argparse.ArgumentParser(prog="make rounds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--shorts", type=int, default=500)
    parser.add_argument("--level", default="none")
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rounds-"))
    campaign = Campaign(
        folder, os.environ.get("SANDBOXD_NODE") or shutil.which("node") or "/usr/bin/node", level=asked.level, seed=asked.seed
    )
    figures = campaign.run(asked.rounds, asked.shorts, say)
    say("\n".join([*figures.details(), "", *figures.lines()]))
    if figures.holds:
        shutil.rmtree(folder)
    else:
        say(f"everything is kept in {folder}")
    return 0 if figures.holds and not figures.late else 1


if __name__ == "__main__":
    sys.exit(main())
