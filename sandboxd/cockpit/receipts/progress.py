"""How far has an answer come, as far as is known? (recorded → accepted → read → went on)

The same four steps, with the same words, for the page, the command line, links and channels.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from sandboxd.a2a.wire import rfc3339
from sandboxd.cockpit.receipts.receipt import What
from sandboxd.cockpit.record import Record
from sandboxd.values import frozen

# done · now: waited for · lost: it will not come to this · unknown: whether it did is not told
State = Literal["done", "now", "lost", "unknown", ""]
TITLES: Final = {"recorded": "recorded", "accepted": "accepted", "read": "read", "went-on": "went on"}
_UNSAID: Final = "the host did not say"
# What is said of `read`: by the first of these receipts that is there.
_READ: Final[tuple[tuple[What, State, str], ...]] = (
    ("read", "done", ""),
    ("discarded", "lost", "the program threw it away unread, and its question is asked anew"),
    ("unfinished", "lost", "its text was typed, and its Enter was not: {how}"),
    ("went-on", "unknown", _UNSAID),
    ("ended", "unknown", _UNSAID),
    ("silent", "unknown", "{how}"),
)


@frozen
class Step:
    """One of the four. `at`: when it came on record here; `said_at`: by the host's own clock."""

    name: Literal["recorded", "accepted", "read", "went-on"]
    state: State = ""
    at: datetime | None = None
    said_at: datetime | None = None
    how: str = ""


def progress_of(record: Record) -> tuple[Step, ...]:
    """The steps of the answer that was, or is to be, delivered; none: nothing is decided."""
    approval = record.approval
    verdict = approval.standing_verdict
    if verdict is None:
        return ()
    recorded = Step("recorded", "done", verdict.at)
    if approval.status == "responded":
        return (recorded, Step("accepted", "done", approval.closed_at), _read(record), _went_on(record))
    if approval.phase == "closed":
        return (recorded, Step("accepted", "lost", how=approval.reason), Step("read"), Step("went-on"))
    return (recorded, Step("accepted", "now", how=_waits(record)), Step("read"), Step("went-on"))


def progress_json(record: Record) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {"step": step.name, "state": step.state, "at": _time(step.at), "said_at": _time(step.said_at), "how": step.how}
        for step in progress_of(record)
    ]


def progress_text(record: Record) -> str:
    """The same on one line, up to the first step that is not done."""
    told = []
    for step in progress_of(record):
        if not step.state:
            break
        told.append(TITLES[step.name] if step.state == "done" else f"{TITLES[step.name]}: {step.how}")
    return " → ".join(told)


def _read(record: Record) -> Step:
    for what, state, how in _READ:
        if step := _step(record, "read", what, state, how):
            return step
    return Step("read", "now", how="not told yet")


def _went_on(record: Record) -> Step:
    told = _step(record, "went-on", "went-on", "done", "{how}") or _step(record, "went-on", "ended", "unknown", "{how}")
    return told or Step("went-on")


def _step(record: Record, name: Literal["read", "went-on"], what: What, state: State, how: str) -> Step | None:
    receipt = next((one for one in record.receipts if one.what == what), None)
    return None if receipt is None else Step(name, state, receipt.at, receipt.said_at, how.format(how=receipt.how))


def _waits(record: Record) -> str:
    approval = record.approval
    if approval.held:
        return "not known; a person has to say how it goes on"
    if approval.phase == "backoff":
        return f"not delivered yet, try {approval.tries} of {approval.terms.tries_max}: {approval.reason}"
    return "being found out" if approval.phase == "reconcile" else "on its way"


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)
