"""How often may one principal ask?

A token bucket each: `rate` requests a second in the long run, `burst` at once. It keeps one client that runs wild from holding
up the others; what work costs in the long run is bounded by the number of live tasks. A stream counts once, when it begins.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

import attrs
import trio

from sandboxd import metrics
from sandboxd.errors import RateLimited

PRINCIPALS_MAX: Final = 10_000  # a bucket that was not used for longest goes first: it is full again by then


@attrs.define
class _Bucket:
    left: float
    at: float


class Pace:
    """Every principal's bucket. `rate_per_s` 0: no limit."""

    def __init__(self, rate_per_s: int, burst: int) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def change(self, rate_per_s: int, burst: int) -> None:
        """Keep other limits from now on; what a caller has used up stays used up."""
        self._rate_per_s, self._burst = rate_per_s, burst

    def take(self, principal: str) -> None:
        """Count one request; `RateLimited` when the bucket is empty, and then it does not count."""
        if self._rate_per_s == 0:
            return
        now = trio.current_time()
        bucket = self._buckets.setdefault(principal, _Bucket(self._burst, now))
        self._buckets.move_to_end(principal)
        while len(self._buckets) > PRINCIPALS_MAX:
            self._buckets.popitem(last=False)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._rate_per_s)
        bucket.at = now
        if bucket.left < 1:
            wait_s = max(1, math.ceil((1 - bucket.left) / self._rate_per_s))
            why = f"this caller may send {self._rate_per_s} a second"
            metrics.BOUNDS.labels(bound="rate").inc()
            raise RateLimited(f"cannot serve the request now: {why}", facts={"retry_after_s": wait_s})
        bucket.left -= 1
