"""How many megabytes a second does the detector take, against a regular expression over the tail after each read?

The naive way is what terminal wrappers do: after each read the escape sequences are stripped from the last 8 KiB, and a pattern
is searched at the end of what is left. Both are fed the same reads, of 4,095 bytes as a pty gives, and of 64 as bars redraw.
No silence is simulated: what a look costs once the output has settled is told apart (`look_ms`). CPU time, best of several
rounds, so that a busy machine tells nearly the same.

    python -m benchmarks.detector_speed
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from benchmarks.detector_adapter import shipped_rules
from sandboxd.detect.detector import Detector
from sandboxd.detect.evidence import Evidence

PTY_READ_BYTES: Final = 4095
TAIL_BYTES: Final = 8192
_LINES: Final = 40_000
_ROUNDS: Final = 7
_READS_MAX: Final = 2000
_STRIP: Final = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
_PATTERN: Final = re.compile(rb"(?i)[\[(](?:yes|y)/(?:no|n)[\])]\s?[:?]?\s?$")
_READER: Final = Evidence(canonical=True, echo=True, reading=True)
GOALS: Final[Mapping[str, float]] = {"plain": 25.0, "coloured": 25.0, "progress": 6.0, "progress, cursor hidden": 6.0}


@attrs.frozen
class Speed:
    """Megabytes (10^6 bytes) a second, and what one look at 8 KiB that nobody has looked at costs, in milliseconds."""

    detector_mb_s: float
    naive_mb_s: float
    look_ms: float

    @property
    def times_faster(self) -> float:
        """How many times the naive way's throughput."""
        return self.detector_mb_s / self.naive_mb_s


def outputs() -> dict[str, bytes]:
    """The streams, by name."""
    numbers = range(_LINES)
    bars = [
        b"%3d%%|%s%s| %d/100 [00:%02d<00:10, %d.1it/s]"
        % (n % 100, b"#" * (n % 40), b" " * (40 - n % 40), n % 100, n % 60, n % 30)
        for n in numbers
    ]
    return {
        "plain": b"".join(
            b"2026-11-30 12:00:%02d worker: item %d of the batch took %d ms\r\n" % (n % 60, n, n % 997) for n in numbers
        ),
        "coloured": b"".join(
            b"\x1b[32m2026-11-30\x1b[0m \x1b[1;34mworker\x1b[0m: \x1b[33mitem\x1b[39m \x1b[1m%d\x1b[22m ok\r\n" % n
            for n in numbers
        ),
        "progress": b"".join(b"\r" + bar for bar in bars),
        "progress, cursor hidden": b"".join(b"\r\x1b[K\x1b[?25l" + bar for bar in bars),
    }


def measure(data: bytes, read_bytes: int = PTY_READ_BYTES) -> Speed:
    """How fast this output is taken in reads of that size."""
    reads = [data[at : at + read_bytes] for at in range(0, len(data), read_bytes)][:_READS_MAX]
    size = sum(map(len, reads))
    rules = shipped_rules()

    def naive() -> None:
        tail = b""
        for read in reads:
            tail = (tail + read)[-TAIL_BYTES:]
            _PATTERN.search(_STRIP.sub(b"", tail))

    def detector() -> None:
        own = Detector(rules, witnessed=True)
        for number, read in enumerate(reads):
            own.feed(read, number * 1e-4)
            own.next_deadline()

    def look() -> float:
        own = Detector(rules, witnessed=True)
        own.feed(data[: 2 * TAIL_BYTES], 0.0)
        began = time.thread_time()
        own.poll(1.0, _READER)
        return time.thread_time() - began

    slow = min(_cpu_s(naive) for _ in range(2))
    fast = min(_cpu_s(detector) for _ in range(_ROUNDS))
    return Speed(size / fast / 1e6, size / slow / 1e6, min(look() for _ in range(_ROUNDS)) * 1e3)


def _cpu_s(work: Callable[[], None]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def main() -> None:
    """Print a table."""
    print(f"{'output':26}{'reads':>6}{'detector':>12}{'naive':>10}{'times':>8}{'look':>9}")
    for name, data in outputs().items():
        for read_bytes in (PTY_READ_BYTES, 64):
            speed = measure(data, read_bytes)
            fast, slow = f"{speed.detector_mb_s:.0f} MB/s", f"{speed.naive_mb_s:.1f} MB/s"
            print(f"{name:26}{read_bytes:6}{fast:>12}{slow:>10}{speed.times_faster:>8.1f}{speed.look_ms:>6.1f} ms")


if __name__ == "__main__":
    main()
