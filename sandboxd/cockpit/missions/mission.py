"""What is known about one mission?

A mission is one adapter command that a person has had started on a host: `Order` says which, `Mission` is the fold of all that
happened to it. Its id is also the context id of its message, and its message's id follows from it, so both are fixed before
anything is sent and the task is found again by them. What state it is in is worked out, never set: `standing`.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final, Literal

import attrs

from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.a2a.model import TaskState
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.context import Preseed
from sandboxd.values import frozen

State = Literal["starting", "running", "awaiting-approval", "paused", "failed", "cancelled", "completed"]
FINAL: Final = ("failed", "cancelled", "completed")
TRIES_MAX: Final = 8  # with waits of 1, 2, 4 … 60 s between them: two minutes, a host's restart
# unreachable: no reply, as often as the budget has it · refused: the host said no · unsure: it may have been taken, and the
# host cannot tell · vanished: the host does not know the task any more · unstoppable: a cancel came to nothing
Hold = Literal["", "unreachable", "refused", "unsure", "vanished", "unstoppable"]


@frozen
class Order:
    """What is to run, and where: an adapter-command/v1 envelope, a text, and the host by its configured name.

    `preseeds`: what its starter answers beforehand. `via`: through which cockpits it came, where another program gave it.
    `links`: what it belongs to, by the word of its starter, and its host's provider.
    """

    host: str
    adapter: str
    mode: str
    command: tuple[str, ...]
    text: str
    working_dir: str | None = None
    timeout_s: int | None = None
    text_line: bool = True
    preseeds: tuple[Preseed, ...] = ()
    via: tuple[str, ...] = ()
    links: Links = NO_LINKS


@frozen
class Question:
    """One of its task's questions that is not closed.

    `step` is the approval's, `held` that only a person brings it further, `is_barren` that nobody may answer it.
    """

    number: int
    prompt_id: str
    step: str
    reason: str
    held: bool
    is_closing: bool = False
    is_barren: bool = False


@frozen
class End:
    """How it ended, where its task does not say that."""

    state: Literal["failed", "cancelled"]
    reason: str


@frozen
class Mission:
    """One mission. `rev` grows with every change.

    `starter` is the account that started it, `person` who stands behind that, `may_answer` what it was granted
    then. `attempt` counts the messages that it was sent with: a new one only after the host has refused the one before.
    `unsure`: a message left, and what became of it is not known. `hold`: why nothing more is done about it without a person;
    `why` its words. `task_state` and `said` are what the host last showed; `observed`: it waits for something that cannot be
    asked here. `unreconciled`: how its task got on without an answer
    of ours, until a person has looked at it. `look`: a person wants the task looked at anew. `cancel`: who asked for its end,
    and why.
    """

    mission_id: str
    order: Order
    starter: str
    person: str
    may_answer: bool
    started_at: datetime
    rev: int = 1
    attempt: int = 1
    tries: int = 0
    unsure: bool = False
    retry_at: datetime | None = None
    hold: Hold = ""
    why: str = ""
    task_id: str | None = None
    task_state: str = ""
    said: str = ""
    observed: str = ""
    questions: tuple[Question, ...] = ()
    unreconciled: str = ""
    look: bool = False
    cancel: str = ""
    end: End | None = None
    ended_at: datetime | None = None

    @property
    def message_id(self) -> str:
        """Under which its message is sent, however often."""
        return str(uuid.uuid5(uuid.UUID(self.mission_id), f"dispatch:{self.attempt}"))

    @property
    def links(self) -> Links:
        """What it, its task and its questions belong to; for the audit, and for the metadata of its message."""
        return attrs.evolve(self.order.links, mission=self.mission_id, sandbox=self.order.host)

    @property
    def principal(self) -> Principal:
        """Who started it."""
        return Principal(self.starter, self.person, self.may_answer)

    @property
    def has_task_ended(self) -> bool:
        """Whether its task was seen in a terminal state, which is final."""
        return bool(self.task_state) and TaskState(self.task_state).is_terminal

    @property
    def standing(self) -> Standing:
        """Its state as people see it."""
        return stand(self)


@frozen
class Standing:
    """The state in the words of the approval workflow, why, and how it can go on where it does not by itself."""

    state: State
    reason: str = ""
    way_out: str = ""

    @property
    def is_final(self) -> bool:
        """Whether nothing changes it any more."""
        return self.state in FINAL


_WAYS: Final[dict[Hold, str]] = {
    "unreachable": "resume tries again, cancel gives it up",
    "refused": "resume sends it again, once what the host says against it is mended; cancel gives it up",
    "unsure": "look at the host's tasks: resume sends the same message once more, where it did not start; cancel gives it up",
    "vanished": "resume looks for its task again; cancel closes it",
    "unstoppable": "resume tries to cancel it again; else end its task at the host",
}
_ASKED: Final = "answer it, or cancel"
_FOUND_OUT: Final = "what the host took is being found out, and it goes on by itself; or cancel"
_HELD: Final = "resume has it found out once more; settle its question on your own word, or cancel"
_BARREN: Final = "nobody may answer its question here: answer it at its host, and it goes on by itself; or cancel"
_OBSERVED: Final = "answer it where it runs, and it goes on by itself; or cancel"
_UNRECONCILED: Final = "look at what its task did: resume goes on with it (asks anew, where it still asks); or cancel"
_WITHHELD: Final = "look at its task's output at the host: resume takes its result, cancel refuses it"


def stand(mission: Mission) -> Standing:
    """What state a mission is in, by the approval workflow, State model."""
    if mission.end is not None:
        return Standing(mission.end.state, mission.end.reason)
    if mission.questions:
        return _stand_asked(mission.questions[-1])
    if mission.has_task_ended:
        return _stand_ended(mission)
    if mission.hold:
        return Standing("paused", mission.why, _WAYS[mission.hold])
    being = f"it is being cancelled: {mission.cancel}" if mission.cancel else ""
    if mission.task_id is None:
        return Standing("starting", being or mission.why)
    if mission.unreconciled:
        return Standing("paused", mission.unreconciled, _UNRECONCILED)
    if mission.observed:
        return Standing("paused", mission.observed, _OBSERVED)
    return Standing("running", being)


def _stand_asked(question: Question) -> Standing:
    if question.step == "awaiting-approval":
        return Standing("awaiting-approval", question.reason, _ASKED)
    if question.is_barren and not question.is_closing:
        return Standing("paused", question.reason, _BARREN)
    return Standing("paused", question.reason, _HELD if question.held else _FOUND_OUT)


def _stand_ended(mission: Mission) -> Standing:
    match TaskState(mission.task_state):
        case TaskState.COMPLETED if mission.unreconciled:
            return Standing("paused", f"{mission.unreconciled}; its task has completed", _WITHHELD)
        case TaskState.COMPLETED:
            return Standing("completed", mission.said)
        case TaskState.CANCELED:
            return Standing("cancelled", mission.cancel or mission.said or "its task was cancelled at the host")
        case state:
            return Standing("failed", mission.said or f"its task is {state.value}")
