"""A question on a desk: every decision about it goes through here, and every law is looked at each time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sandboxd.approvals.events import Alert, CancelAsked, Decided, Deliver, Event, Received, Tell, Ticked, Voted
from sandboxd.approvals.record import Approval, Question, Terms, payload
from sandboxd.approvals.reducer import begin, decide
from sandboxd.approvals.routing import Principal
from sandboxd.errors import Problem
from tests.approvals.laws import broken

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PROMPT_ID = "0b5c0f3e-8d4f-4a4b-9f0f-5d3a1c2b7e90"
MISFIT = (Problem("/text", "does not fit", "maxLength"),)


def person(name: str, *, account: str = "", may_answer: bool = True) -> Principal:
    return Principal(account or f"token:{name}", name, may_answer)


class Desk:
    """One question and its clock."""

    def __init__(self, *patterns: str, deadline: datetime | None = None, **terms: Any) -> None:
        self.now = NOON
        self.question = Question(PROMPT_ID, "digest", patterns or None, deadline)
        self.log: list[Decided] = [begin(Received(self.question, Terms(**terms), "seed"), NOON)]

    @property
    def approval(self) -> Approval:
        return self.log[-1].approval

    @property
    def last(self) -> str:
        """The outcome that the last event's sender is told."""
        return self.log[-1].marks[-1].outcome

    @property
    def stands(self) -> tuple[str, str, str]:
        return self.approval.status, self.approval.phase, self.approval.step

    @property
    def sent(self) -> list[Deliver]:
        return [effect for decided in self.log for effect in decided.effects if isinstance(effect, Deliver)]

    @property
    def told(self) -> list[str]:
        return [f"{it.what} {it.route}".strip() for decided in self.log for it in decided.effects if isinstance(it, Tell)]

    @property
    def alerts(self) -> list[str]:
        return [effect.why for decided in self.log for effect in decided.effects if isinstance(effect, Alert)]

    def hear(self, event: Event) -> str:
        decided = decide(self.approval, event, self.now)
        assert broken(self.approval, event, decided, self.now) == ""
        self.log.append(decided)
        return self.last

    def vote(self, who: Principal, value: Any = "y", *, fits: bool = True) -> str:
        said = value if isinstance(value, dict) else {"text": value}
        return self.hear(Voted(who, "test", payload(said), () if fits else MISFIT))

    def wait(self, **later: float) -> str:
        self.now += timedelta(**later)
        return self.hear(Ticked())

    def cancel(self, who: Principal) -> str:
        return self.hear(CancelAsked(who, "test", "no longer wanted"))
