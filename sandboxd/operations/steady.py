"""What time is it, as far as something may be forgotten by it?

The machine's clock can be set, by days and by mistake, and what is removed by it is gone. So the time that age is judged by
follows it freely where that keeps things longer, and forward only as fast as a clock runs that nobody sets: CLOCK_BOOTTIME,
across restarts of the daemon too. A clock that leapt forward is believed when it has stood so for a day, in which somebody can
put it right. How long a machine was off nothing tells but its clock: a longer time off is treated as a leap.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import trio

from sandboxd import logs
from sandboxd.errors import LoadError
from sandboxd.live.clock import Clock
from sandboxd.serving.private_file import read_private, write_private
from sandboxd.values import frozen

FILE: Final = "clock.json"
BELIEVED_AFTER: Final = timedelta(days=1)
_SLACK: Final = timedelta(hours=1)
_SLACK_OF_A_BOOT: Final = timedelta(hours=25)  # a machine that is off at night
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_log = logs.logger(__name__)


@frozen
class Sighting:
    """`time`: what age is judged by, at `boot_s` seconds of that boot. `leapt_at`: its value when the clock was found to have
    leapt; None: it agrees with the clock.
    """

    boot: str
    boot_s: float
    time: datetime
    leapt_at: datetime | None = None


def look(last: Sighting | None, boot: str, boot_s: float, clock: datetime) -> Sighting:
    """What is to be thought of what the clock says now, after the last sighting (None: there was none)."""
    if last is None:
        return Sighting(boot, boot_s, clock)
    is_same = boot == last.boot
    steady = last.time + timedelta(seconds=max(0.0, boot_s - last.boot_s) if is_same else 0.0)
    if clock <= steady + (_SLACK if is_same else _SLACK_OF_A_BOOT):
        return Sighting(boot, boot_s, clock)
    leapt_at = last.leapt_at or steady
    if steady - leapt_at >= BELIEVED_AFTER:
        return Sighting(boot, boot_s, clock)
    return Sighting(boot, boot_s, steady, leapt_at)


class SteadyClock:
    """The one of a daemon, which remembers in its state folder what it saw last."""

    def __init__(self, clock: Clock, folder: Path) -> None:
        self._clock = clock
        self._path = folder / FILE

    async def now(self) -> datetime:
        """The time to judge age by. Says so, each time, where that is not what the clock says."""
        boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        boot = _BOOT_ID.read_text().strip()
        clock = self._clock.now()
        seen = look(await trio.to_thread.run_sync(self._last), boot, boot_s, clock)
        if seen.leapt_at is not None:
            left = BELIEVED_AFTER - (seen.time - seen.leapt_at)
            _log.warning(
                "the machine's clock leapt forward: nothing is forgotten by it until it has stood so for a day",
                clock=clock.isoformat(timespec="seconds"),
                taken_for=seen.time.isoformat(timespec="seconds"),
                hours_left=round(left / timedelta(hours=1), 1),
            )
        await trio.to_thread.run_sync(self._remember, seen)
        return seen.time

    def _last(self) -> Sighting | None:
        if not self._path.exists():
            return None
        try:
            found = json.loads(read_private(self._path))
            leapt_at = found["leapt_at"]
            return Sighting(
                str(found["boot"]),
                float(found["boot_s"]),
                _moment(found["time"]),
                None if leapt_at is None else _moment(leapt_at),
            )
        except (LoadError, ValueError, TypeError, KeyError) as error:
            _log.error("Cannot tell whether the machine's clock leapt: it is believed", error=str(error))
            return None

    def _remember(self, seen: Sighting) -> None:
        leapt_at = None if seen.leapt_at is None else seen.leapt_at.isoformat()
        told = {"boot": seen.boot, "boot_s": seen.boot_s, "time": seen.time.isoformat(), "leapt_at": leapt_at}
        try:
            write_private(self._path, json.dumps(told) + "\n")
        except LoadError as error:
            _log.error("Cannot note what the machine's clock says", error=str(error))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
