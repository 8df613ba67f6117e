"""What does a cockpit know about one question, beside how it is decided?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxd.a2a.links import Links
from sandboxd.approvals.events import Decided
from sandboxd.approvals.record import Approval
from sandboxd.cockpit.codec import Wire
from sandboxd.cockpit.receipts.receipt import Receipt
from sandboxd.errors import Problem
from sandboxd.values import frozen


@frozen
class Place:
    """Where a question stands: the host by its configured name, and the task there."""

    host: str
    task_id: str
    context_id: str


@frozen
class Record:
    """One prompt: where it stands, its envelope as it came, what it belongs to, and its approval.

    `receipts`: what is known of its answer behind the acceptance; they are about whichever answer the host took.
    """

    number: int
    place: Place
    envelope: Mapping[str, Any]
    links: Links
    approval: Approval
    receipts: tuple[Receipt, ...] = ()

    @property
    def prompt_id(self) -> str:
        """The id that the asker gave it; unique on its host."""
        return self.approval.question.prompt_id


@frozen
class Heard:
    """An event is on disk, and what came of it.

    `asked`: how many questions its task has asked so far. `problems`: where an answer does not fit.
    """

    record: Record
    decided: Decided
    asked: int = 0
    problems: tuple[Problem, ...] = ()


@frozen
class Pending:
    """One call that is to be made; done when an event was heard that names its `rev`."""

    record: Record
    rev: int
    wire: Wire


@frozen
class News:
    """Something that people are told: asked, reminder, escalation (by `route`), invalid, closed, alert or receipt.

    `why`: of an alert, its reason; of receipts, which ones.

    A channel keeps the number of the last one that it has told; the record is as it stands now.
    """

    number: int
    what: str
    route: str
    why: str
    record: Record


@frozen
class Sighting:
    """A task that asks what cannot be asked here.

    `observed` has no envelope, `malformed` one that must not be used; `postponed` waits for room, and is asked by itself then.
    """

    number: int
    host: str
    task_id: str
    digest: str
    kind: str
    text: str
    why: str
