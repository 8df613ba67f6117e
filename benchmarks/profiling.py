"""Where does a daemon's time go while the bench measures it?

Runs a command, the bench, and lets py-spy (https://github.com/benfred/py-spy) look 200 times a second at each daemon that it
starts. A daemon lets nobody but root read its memory, so this is root's; and what is watched is slower, so it measures nothing
else. What comes out is each daemon's own time by thread, by package and by function.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import psutil

PER_SECOND: Final = 200
LOOK_EVERY_S: Final = 0.05
LEAST_SAMPLES: Final = 100  # half a second: fewer say nothing
SHOWN: Final = 30
# py-spy takes a thread for busy that waits in one of these.
WAITING: Final = frozenset(
    {
        "WorkerThread._work (trio/_core/_thread_cache.py)",
        "PatientEpoll.poll (sandboxd/watches.py)",
        "Writer._take (sandboxd/db/writer.py)",
    }
)
_FRAME: Final = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)$")


@attrs.define
class Profile:
    """What the samples of one process were found in."""

    title: str
    samples: int = 0
    packages: Counter[str] = attrs.field(factory=Counter)
    own: Counter[str] = attrs.field(factory=Counter)
    whole: Counter[str] = attrs.field(factory=Counter)
    threads: Counter[str] = attrs.field(factory=Counter)

    def add(self, stack: str, count: int) -> None:
        """A line of py-spy's raw format, without its count: the thread, then frames from the outermost to the running one."""
        thread, *frames = stack.split(";")
        calls = [match for frame in frames if (match := _FRAME.match(frame)) is not None]
        if not calls or _name(calls[-1]) in WAITING:
            return
        self.samples += count
        self.threads[re.sub(r"^thread |\(?\d+\)?:? ?", "", thread).strip() or "main"] += count
        self.packages[_package(calls[-1]["file"])] += count
        self.own[_name(calls[-1])] += count
        for name in {_name(call) for call in calls}:
            self.whole[name] += count

    def markdown(self) -> str:
        """The shares, the largest first."""
        threads = ", ".join(f"{name} {100 * count / self.samples:.0f} %" for name, count in self.threads.most_common())
        lines = [f"## {self.title}", "", f"{self.samples} samples; by thread: {threads}.", ""]
        tables = {"package, its own time": self.packages, "function, its own time": self.own, "with what it calls": self.whole}
        for heading, counts in tables.items():
            lines += [f"| {heading} | share |", "|---|---|"]
            lines += [f"| {name} | {100 * count / self.samples:.1f} % |" for name, count in counts.most_common(SHOWN)]
            lines.append("")
        return "\n".join(lines)


def _name(call: re.Match[str]) -> str:
    return f"{call['function']} ({_short(call['file'])})"


def _short(file: str) -> str:
    for mark in ("site-packages/", "python3.11/", "tree/"):
        _, found, rest = file.rpartition(mark)
        if found:
            return rest
    return file


def _package(file: str) -> str:
    parts = _short(file).split("/")
    if parts[0] == "sandboxd":
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "Python's own"


def read(raw: Path, title: str) -> Profile:
    """The profile in a file of py-spy's raw format."""
    profile = Profile(title)
    for line in raw.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        profile.add(stack, int(count))
    return profile


def _daemons(command: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    for process in psutil.Process(command.pid).children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:  # it has ended meanwhile
            continue
        if words[1:4] == ["-m", "sandboxd", "serve"]:
            yield process


def _watch(command: subprocess.Popen[bytes], py_spy: str, folder: Path) -> list[Path]:
    watchers: dict[int, subprocess.Popen[bytes]] = {}
    while command.poll() is None:
        for process in _daemons(command):
            if process.pid not in watchers:
                options = [
                    "--format",
                    "raw",
                    "--threads",
                    "--rate",
                    str(PER_SECOND),
                    "--output",
                    str(folder / f"{process.pid}"),
                ]
                watchers[process.pid] = subprocess.Popen(
                    [py_spy, "record", "--pid", str(process.pid), *options],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        time.sleep(LOOK_EVERY_S)
    for watcher in watchers.values():  # each ends with the process that it looks at
        watcher.wait(30)
    return [folder / str(pid) for pid in watchers]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and profile its daemons; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--py-spy", required=True, help="the program")
    parser.add_argument("--out", type=Path, required=True, help="the Markdown file to write")
    parser.add_argument("command", nargs="+", help="what to run: the bench")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sandboxd-profile-") as folder:
        command = subprocess.Popen(given.command)
        try:
            raw = _watch(command, given.py_spy, Path(folder))
        finally:
            command.terminate()
            status = command.wait()
        found = [read(path, f"Daemon {number}") for number, path in enumerate(raw, start=1) if path.exists()]
    told = [profile.markdown() for profile in found if profile.samples >= LEAST_SAMPLES]
    if not told:
        print("cannot profile: no daemon was seen at work for half a second (root, and py-spy, are needed)", file=sys.stderr)
        return status or 1
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(told))
    return status


if __name__ == "__main__":
    sys.exit(main())
