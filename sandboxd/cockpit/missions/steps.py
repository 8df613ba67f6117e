"""What becomes of a mission when something happens, and what is to be done next?

`decide` is pure: a mission and an event in, the mission after it out. What is to be done follows from the mission alone
(`due`), so a kill loses nothing: where a message may have left, its task is looked for before anything is sent again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal, assert_never

import attrs

from sandboxd.approvals.record import Approval
from sandboxd.cockpit.missions.mission import TRIES_MAX, End, Hold, Mission, Question
from sandboxd.values import frozen

WAIT_FIRST: Final = timedelta(seconds=1)
WAIT_MAX: Final = timedelta(seconds=60)
# send: the message · find: the task that a message may have become · stop: cancel the task · look: at the task, anew ·
# close: cancel a question that came while the mission was being cancelled
Act = Literal["send", "find", "stop", "look", "close"]


@frozen
class Sending:
    """The message is about to leave: from here on it may have arrived. It may leave if `find` is due after this."""


@frozen
class Failed:
    """What was to be done came to nothing. `never_left`: the host cannot have seen it. `refused`: it said no, for good."""

    act: Act
    why: str
    never_left: bool = False
    refused: bool = False


@frozen
class Missing:
    """The host has no task of it. `acts_once`: the same message may be sent again, for it is acted on once."""

    acts_once: bool


@frozen
class Shown:
    """The host shows its task. `observed`: it waits for something that is not asked here. `looked`: as was asked for."""

    task_id: str
    state: str
    said: str = ""
    observed: str = ""
    looked: bool = False


@frozen
class StillAsks:
    """Looked at anew, it asks what is closed here, and cannot be asked anew."""

    why: str


@frozen
class Asked:
    """A question of its task stands otherwise than before, or is new."""

    number: int
    approval: Approval


@frozen
class Vanished:
    """The host does not know its task."""

    why: str


@frozen
class Resumed:
    """A person wants it to go on."""


@frozen
class Cancelled:
    """A person wants it to end."""

    reason: str


Event = Sending | Failed | Missing | Shown | StillAsks | Asked | Vanished | Resumed | Cancelled


def decide(mission: Mission, event: Event, now: datetime, *, tries_max: int = TRIES_MAX) -> Mission:
    """The mission after the event; `rev` has grown by one if it is another one. One that has ended only learns of its task."""
    if mission.ended_at is not None and not isinstance(event, Shown | Failed):
        return mission
    after = _apply(mission, event, now, tries_max)
    if after.cancel and after.has_task_ended and after.standing.state == "paused" and not after.questions:
        after = attrs.evolve(after, end=End("cancelled", f"{after.cancel}; its task had completed, and its result is refused"))
    if after == mission:
        return mission
    if after.ended_at is None and after.standing.is_final:
        after = attrs.evolve(after, ended_at=now)
    return attrs.evolve(after, rev=mission.rev + 1)


def due(mission: Mission) -> Act | None:
    """What is to be done about it, at `retry_at` where that is set."""
    if mission.hold or (mission.has_task_ended and not mission.look):
        return None
    is_over = mission.end is not None
    if mission.task_id is None:
        if mission.unsure:
            return None if is_over else "find"
        return None if is_over or mission.cancel else "send"
    if mission.cancel and mission.questions:  # a question's own cancel ends its task, and waits for that
        return None if all(one.is_closing for one in mission.questions) else "close"
    if mission.cancel or is_over:
        return "stop"
    return "look" if mission.look else None


def _apply(mission: Mission, event: Event, now: datetime, tries_max: int) -> Mission:
    match event:
        case Sending():
            if due(mission) != "send":  # somebody cancelled it, or the host shows its task, since it was looked at
                return mission
            return attrs.evolve(mission, tries=mission.tries + 1, unsure=True, retry_at=None, why="")
        case Failed():
            return _failed(mission, event, now, tries_max)
        case Missing():
            return _missing(mission, event)
        case Shown():
            return _shown(mission, event)
        case StillAsks(why=why):
            return attrs.evolve(mission, look=False, unreconciled=why)
        case Asked():
            return _asked(mission, event)
        case Vanished(why=why):
            if mission.has_task_ended:
                return mission
            if mission.cancel:
                return attrs.evolve(mission, end=End("cancelled", f"{mission.cancel}; {why}"), look=False)
            return _hold(mission, "vanished", why)
        case Resumed():
            return _resumed(mission)
        case Cancelled(reason=reason):
            return _cancelled(mission, reason)
        case _:
            assert_never(event)


def _failed(mission: Mission, event: Failed, now: datetime, tries_max: int) -> Mission:
    spent = mission.tries + (event.act != "send")  # a message was counted before it left
    known = attrs.evolve(mission, unsure=mission.unsure and not event.never_left, why=event.why, tries=spent)
    if event.act == "send" and mission.task_id is not None:
        return attrs.evolve(mission, unsure=False)  # it was seen already: the reply alone was lost
    if event.act == "send" and event.refused:
        known = attrs.evolve(known, unsure=False)
    if mission.cancel and mission.task_id is None and not known.unsure:
        return attrs.evolve(known, end=End("cancelled", mission.cancel))
    if event.act == "send" and event.refused:
        return _hold(known, "refused", event.why)
    if known.tries >= tries_max or event.refused:
        return _hold(known, "unstoppable" if event.act == "stop" else "unreachable", event.why)
    return attrs.evolve(known, retry_at=now + min(WAIT_FIRST * 2 ** max(known.tries - 1, 0), WAIT_MAX))


def _missing(mission: Mission, event: Missing) -> Mission:
    if mission.task_id is not None or not mission.unsure:
        return mission
    if mission.cancel:
        return attrs.evolve(mission, end=End("cancelled", f"{mission.cancel}; the host has no task of it"))
    if event.acts_once:
        return attrs.evolve(mission, unsure=False)  # the very same message, then
    return _hold(mission, "unsure", "the message may have arrived, and the host shows no task of it")


def _shown(mission: Mission, event: Shown) -> Mission:
    if mission.has_task_ended:
        return attrs.evolve(mission, look=False)
    is_new, is_found = mission.task_id is None, mission.hold != "unstoppable"
    return attrs.evolve(
        mission,
        task_id=event.task_id,
        task_state=event.state,
        said=event.said,
        observed=event.observed,
        hold="" if is_found else mission.hold,
        why="" if is_found else mission.why,
        unsure=False,
        tries=0 if is_new else mission.tries,
        retry_at=None if is_new else mission.retry_at,
        look=mission.look and not event.looked,
    )


def _asked(mission: Mission, event: Asked) -> Mission:
    approval = event.approval
    others = tuple(one for one in mission.questions if one.number != event.number)
    if approval.phase != "closed":
        asked = Question(
            *(event.number, approval.question.prompt_id, approval.step, approval.reason, approval.held),
            is_closing=approval.closing is not None,
            is_barren=bool(approval.dead_end),
        )
        return attrs.evolve(mission, questions=tuple(sorted((*others, asked), key=lambda one: one.number)))
    after = attrs.evolve(mission, questions=others)
    if approval.status in ("expired", "cancelled") and approval.step in ("failed", "cancelled"):
        # Behind its fence: the task has ended, or has been ended.
        return attrs.evolve(after, end=End("failed" if approval.step == "failed" else "cancelled", approval.reason))
    if approval.step == "paused":
        return attrs.evolve(after, unreconciled=approval.reason or f"its question is closed: {approval.status}")
    return after


def _resumed(mission: Mission) -> Mission:
    if mission.end is not None:
        return mission
    again = attrs.evolve(mission, tries=0, retry_at=None)
    match mission.hold:
        case "refused":
            return attrs.evolve(again, hold="", why="", attempt=mission.attempt + 1, unsure=False)
        case "unsure":
            return attrs.evolve(again, hold="", why="", unsure=False)  # a person's word: it did not start
        case "vanished":
            return attrs.evolve(again, hold="", why="", look=True)
        case "unreachable" | "unstoppable":
            return attrs.evolve(again, hold="", why="", look=mission.task_id is not None and not mission.cancel)
        case _:
            if not mission.unreconciled or mission.questions:
                return mission
            return attrs.evolve(again, unreconciled="", look=not mission.has_task_ended)


def _cancelled(mission: Mission, reason: str) -> Mission:
    if mission.standing.is_final or mission.cancel:
        return mission
    asked = attrs.evolve(mission, cancel=reason, hold="", why="", tries=0, retry_at=None, look=False)
    if mission.has_task_ended or (mission.task_id is None and not mission.unsure) or mission.hold in ("refused", "vanished"):
        return attrs.evolve(asked, end=End("cancelled", reason))
    return asked


def _hold(mission: Mission, hold: Hold, why: str) -> Mission:
    return attrs.evolve(mission, hold=hold, why=why, retry_at=None, look=False)
