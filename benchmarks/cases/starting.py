"""How long is it until there is something to use?"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import host
from benchmarks.bench import Bench
from benchmarks.result import Goal, Row


def _run_ms(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1e3


def rows(bench: Bench) -> Iterator[Row]:
    """The help text and a daemon that is ready, against an interpreter that does nothing."""
    helped, ready, bare = [], [], []
    for number in range(bench.count(8)):
        bare.append(_run_ms("-c", "pass"))
        helped.append(_run_ms("-m", "sandboxd", "--help"))
        with host.running(bench.folder / f"starting-{number}") as daemon:
            ready.append(daemon.ready_s * 1e3)
    yield Row("`sandboxd --help`", "`python -c pass`", Goal("most", 8), "ms", tuple(helped), tuple(bare))
    yield Row("daemon ready", "`python -c pass`", Goal("most", 45), "ms", tuple(ready), tuple(bare))
