"""What does a case need to measure with?

A folder of its own, the Python that has the peers, and how much to do: `scale` 1 is the whole bench, less is a try.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

HERE = Path(__file__).resolve().parent


@attrs.frozen
class Bench:
    """What all cases share."""

    folder: Path
    peers_python: str
    scale: float = 1.0

    def count(self, number: int, least: int = 3) -> int:
        """That many, scaled."""
        return max(least, round(number * self.scale))

    @contextlib.contextmanager
    def peer(self, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A script of `benchmarks/peers/` under the peers' Python; ended, however this is left."""
        process: subprocess.Popen[str] = subprocess.Popen(
            [self.peers_python, str(HERE / "peers" / f"{name}.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def said(process: subprocess.Popen[str]) -> Any:
    """The next line that a peer prints, without its end."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the peer {process.args!r} ended before it said anything")
    return line.strip()
