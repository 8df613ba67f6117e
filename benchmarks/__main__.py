"""How fast is it, beside what a user would take instead?  `make bench` runs all of it; README.md says how to read it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.bench import Bench
from benchmarks.cases import asking, detecting, flooding, growing, idling, sending, spawning, starting, storing, streaming
from benchmarks.result import Row

CASES: Final[dict[str, Callable[[Bench], Iterator[Row]]]] = {
    "asking": asking.rows,
    "spawning": spawning.rows,
    "sending": sending.rows,
    "storing": storing.rows,
    "detecting": detecting.rows,
    "flooding": flooding.rows,
    "streaming": streaming.rows,
    "starting": starting.rows,
    "growing": growing.rows,
    "idling": idling.rows,
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run the cases; exit 0 when all were measured, met or not, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of: {', '.join(CASES)} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="how much to do: 1 is the whole bench, 0.2 a try")
    parser.add_argument("--results", type=Path, help="a folder for results.md and results.json")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    where, began, rows, failed = report.machine(), time.monotonic(), [], []
    place = Path(tempfile.mkdtemp(prefix="sandboxd-bench-"))
    try:
        bench = Bench(place, os.environ.get("SANDBOXD_BENCH_PEERS", sys.executable), arguments.scale)
        for name in arguments.cases or CASES:
            _say(f"· {name} …")
            try:
                for row in CASES[name](bench):
                    rows.append(row)
                    _say(f"  {report.line(row)}")
            except Exception as error:  # what one case cannot do must not hide the others; it is told at the end
                traceback.print_exc()
                failed.append(f"{name}: {error}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    seconds = time.monotonic() - began
    table = report.markdown(rows, where, seconds, failed)
    print(table)
    if arguments.results:
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / "results.md").write_text(table)
        (arguments.results / "results.json").write_text(report.as_json(rows, where, seconds, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
