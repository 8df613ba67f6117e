"""When does a question close, and when is it next time for something?

Every time is absolute and worked out once, so a restart moves nothing. A timer that fires late, early or twice is harmless:
`Ticked` says only that somebody should look at the clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sandboxd.approvals.record import Approval, Terms

REMIND_AT: Final = (0.5, 0.8)  # of the wait
REMINDERS_APART: Final = timedelta(seconds=60)


def closing_time(deadline: datetime | None, terms: Terms, now: datetime) -> tuple[datetime, str]:
    """Until when answers are taken, and why until then: the asker's deadline less what delivery needs, or our own patience."""
    patience = now + terms.patience
    if deadline is None:
        return patience, "as long as this cockpit waits"
    left = deadline - now
    ends = deadline - min(terms.margin, left / 2) if left > timedelta() else deadline
    return (ends, "the asker's deadline") if ends <= patience else (patience, "as long as this cockpit waits")


def reminder_times(now: datetime, closes_at: datetime) -> tuple[datetime, ...]:
    """When people are reminded; never closer together, or to either end, than `REMINDERS_APART`."""
    times: list[datetime] = []
    for share in REMIND_AT:
        at = now + (closes_at - now) * share
        if at - (times[-1] if times else now) >= REMINDERS_APART and closes_at - at >= REMINDERS_APART:
            times.append(at)
    return tuple(times)


def backoff(tries: int, terms: Terms) -> timedelta:
    """How long to wait after that many tries."""
    return min(terms.backoff * (1 << max(tries - 1, 0)), terms.backoff_max)


def next_wake(approval: Approval) -> datetime | None:
    """When `Ticked` can next change something; None: never."""
    times = [] if approval.retry_at is None else [approval.retry_at]
    if approval.phase == "open":
        times.append(approval.closes_at)
        times += approval.reminders[approval.reminded :][:1]
        escalations = approval.terms.escalations[approval.escalated :][:1]
        times += [approval.received_at + escalation.after for escalation in escalations]
    return min(times, default=None)
