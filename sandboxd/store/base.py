"""What does a store promise?

Every store joins the contract suite `tests/store/test_store_contract*.py`. Promises: a call that returned is on disk (SQLite:
WAL, `synchronous=FULL`, files of output flushed before); the events of one `append` and the task's new row become visible
together or not at all; sequence numbers of a task are 1, 2, 3 … without a gap; a prompt id on record is never used again. One
writer a task: `append` names the sequence number it builds on, and `Conflict` says that somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

import attrs

from sandboxd.a2a.links import NO_LINKS, Links
from sandboxd.a2a.model import Message, PushConfig, TaskState
from sandboxd.chain import Kept, Spot
from sandboxd.errors import Unable
from sandboxd.tasks.events import Event
from sandboxd.tasks.view import TaskView
from sandboxd.values import frozen

PromptState = Literal["open", "answered", "withdrawn", "expired", "ended", "reissued"]


class Conflict(Exception):
    """Somebody else appended to this task, or it exists already: a bug of ours, or two daemons on one store."""


class StoreUnavailable(Unable):
    """The store cannot be read or written (disk full, I/O error, corrupt); the message says which."""


class TooManyPushes(Exception):
    """The task has as many push notification configs as a task may have."""


@frozen
class Entry:
    """An event to append; `chunk` holds the bytes of a `Wrote` (exactly `size` of them), else empty.

    `push`: a push notification config that came with the event's message. It gets on record with the event or not at all, in
    place of one of the same id of the same principal, and is told everything from a new task's first event on, else what
    follows this one. Whoever appends it has seen to the cap. `note`: the audit's word on who sent the event's message, which
    gets on record with the event or not at all too. `prepared`: what a store has made of it beforehand, and nobody else's.
    """

    event: Event
    chunk: bytes = attrs.field(default=b"", repr=lambda data: f"<{len(data)} bytes>")
    push: PushEntry | None = None
    note: AuditEntry | None = None
    prepared: object = attrs.field(default=None, eq=False, repr=False)


@frozen
class StoredEvent:
    """An event with its sequence number; `chunk` is filled in by `Feed` for live subscribers and by `events` on request."""

    seq: int
    event: Event
    chunk: bytes = attrs.field(default=b"", repr=lambda data: f"<{len(data)} bytes>")


@frozen
class PromptRecord:
    """What became of a prompt. `message_id`, `principal` and `closed_at` are set once it is answered."""

    prompt_id: str
    task_id: str
    instance: str
    state: PromptState
    asked_at: datetime
    closed_at: datetime | None = None
    message_id: str | None = None
    principal: str | None = None


@frozen
class SendKey:
    """Which message of whom: the scope of idempotency/v1. `message_id` in lower case."""

    principal: str
    instance: str
    message_id: str


@frozen
class Told:
    """A refusal as it went out. `door`: the spelling that it has, which no other door can use."""

    door: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")


@frozen
class SendRecord:
    """What is known of a message: the hash of its request, and the task and event it led to, or how it was refused.

    Neither: somebody began to act on it and nothing came of that, as far as the store knows.
    """

    digest: str
    task_id: str | None = None
    seq: int | None = None
    told: Told | None = None


AuditAction = Literal["send", "answer", "cancel", "reissue", "push-create", "push-delete", "push-retry"]


@frozen
class AuditEntry:
    """Who did what, where, and what came of it: ids and words of ours, nothing of what was said.

    `config_id` and `target`: a push notification config, and the scheme, host and port that it sends to. `links`: what a task
    belongs to, by the word of whoever starts it.
    """

    at: datetime
    principal: str
    door: str
    action: AuditAction
    instance: str
    outcome: str
    task_id: str | None = None
    prompt_id: str | None = None
    message_id: str | None = None
    config_id: str | None = None
    target: str | None = None
    links: Links = NO_LINKS


@frozen
class AuditBegins:
    """Where the audit record begins: what stood up to `spot` went by its age. Up to `older_to` records have no hash."""

    spot: Spot
    older_to: int = 0


@frozen
class AuditPage:
    """Audit records in order, and where the record began at that moment. Of each the body is JSON; numbers only grow."""

    begins: AuditBegins
    records: Sequence[Kept]


@frozen
class PushEntry:
    """A push notification config, whose it is, and how far its receiver has been told.

    `cursor`: the last event that was dealt with; what follows it is to be sent. `extensions`: those that its creator's request
    activated. `tries`: how often the next event was tried; `next_at`: not to be tried before. `is_given_up`: the receiver did
    not take the event before, in all the tries that it had.
    """

    task_id: str
    instance: str
    principal: str
    extensions: tuple[str, ...]
    config: PushConfig
    cursor: int
    number: int = 0
    tries: int = 0
    next_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    is_given_up: bool = False


@frozen
class DeadPush:
    """A notification that was given up: of event `seq` of that task, for that config. `url` is without its query.

    `number` only grows; 0: it is not on record yet.
    """

    task_id: str
    config_id: str
    principal: str
    url: str
    seq: int
    at: datetime
    tries: int
    why: str
    number: int = 0


@frozen
class TaskQuery:
    """Which tasks a list shows: newest status first, ties by id.

    `after`: the last row of the page before. `history_length`: so many of the latest messages a task are read (None: all): a
    long conversation is most of what a page takes.
    """

    instance: str
    context_id: str | None = None
    principal: str | None = None  # who created them
    state: TaskState | None = None
    since: datetime | None = None
    limit: int = 50
    after: tuple[datetime, str] | None = None
    history_length: int | None = None  # how much of each history is read, the latest; what came before is `earlier`


@frozen
class Standing:
    """What stands now: live tasks by state, and open prompts."""

    tasks: Mapping[TaskState, int]
    prompts: int


@frozen
class Unfinished:
    """A task that nobody conducts any more. `foreseen`: its next event, which may have been told already (`Store.promise`)."""

    view: TaskView
    foreseen: Event | None = None


@frozen
class TaskRows:
    """One page: `total` counts what the filters let through, before paging; `has_more`: rows follow this page."""

    views: tuple[TaskView, ...]
    total: int
    has_more: bool


class Store(Protocol):
    """The durable record of tasks. All methods may raise `StoreUnavailable`."""

    async def create(self, principal: str, entries: Sequence[Entry], view: TaskView) -> None:
        """Put a new task on record with its first events; `view` is the fold of them all."""

    async def append(self, entries: Sequence[Entry], view: TaskView, *, after: int) -> None:
        """Append events that follow sequence number `after`; `view` is the fold of everything up to the last of them.

        In the same transaction prompts are opened (`Asked`) and closed (`Answered`, `Closed`, and whatever is open when a
        terminal event arrives becomes `ended`). Raises `Conflict` when the task's last sequence number is not `after`.
        """

    def prepared(self, entry: Entry, view: TaskView, *, after: int) -> Entry:
        """The entry for an `append` of it alone that may follow, with this very view: what can be done before is done."""

    async def foresee(self, entry: Entry, view: TaskView, *, after: int) -> None:
        """Keep an event that may follow `after`, in place of the one that was foreseen before; nothing that is read shows it.

        `entry`, `view`: as `prepared` made them. It counts while the task stands at `after`: whatever is appended voids it,
        itself included. Where the task's writer dies while it counts, `unfinished` has it.
        """

    async def unforesee(self, task_id: str, *, after: int) -> None:
        """Forget what was foreseen to follow `after`."""

    def promise(self, task_id: str) -> None:
        """What was foreseen has happened, and is told; whoever calls goes on to the task's next `append`, which begins with it.

        Whatever reads this task, or tasks, from now on waits for that append, so nobody is shown less than was told. While it
        cannot be done, such reads raise `StoreUnavailable`.
        """

    def forsake(self, task_id: str) -> None:
        """Nobody goes on to that append any more, so such reads raise `StoreUnavailable` until somebody does (`unfinished`)."""

    async def view(self, task_id: str, *, history_length: int | None = None) -> TaskView | None:
        """The task as it stands, or None. `history_length`: how much of its history is read, the latest; None: all."""

    async def owner(self, task_id: str) -> str | None:
        """The principal that created the task, or None."""

    async def view_at(self, task_id: str, seq: int) -> TaskView | None:
        """The task as it stood right after event `seq` (`seq` ≥ 1); None when the task or that event does not exist."""

    async def events(self, task_id: str, *, after: int, limit: int = 1000) -> Sequence[StoredEvent]:
        """Up to `limit` events after `after`, in order, `Wrote` with its bytes; fewer where those are many, none at the end."""

    async def read(self, task_id: str, artifact_id: str, start: int, stop: int) -> bytes:
        """The artifact's kept bytes `[start, stop)`; shorter where fewer are kept; damaged: `StoreUnavailable`."""

    async def tasks(self, query: TaskQuery) -> TaskRows:
        """One page of tasks of one instance."""

    async def prompt(self, prompt_id: str) -> PromptRecord | None:
        """What became of that prompt, or None when it never existed."""

    async def history(self, task_id: str, count: int) -> Sequence[Message]:
        """The first `count` messages of the task's history; fewer where there are fewer, none for an unknown task."""

    async def unfinished(self, task_id: str | None = None) -> Sequence[Unfinished]:
        """Every task, or that one, that is not in a terminal state, for whoever resolves them: it waits for no promise."""

    async def standing(self) -> Standing:
        """How many tasks live, and how many prompts are open: counted, whatever the tasks hold."""

    async def prune(self, *, ended_before: datetime, limit: int = 500) -> int:
        """Delete up to `limit` tasks that ended before then, with their events and bytes; how many went."""

    async def prune_events(self, *, ended_before: datetime, limit: int = 500) -> int:
        """Delete the events of up to `limit` tasks that ended before then; how many had any. The tasks and output stay."""

    async def prune_output(self, *, ended_before: datetime, limit: int = 500) -> int:
        """Delete events and output of up to `limit` tasks that ended before then; how many had any.

        The tasks stay, and their artifacts say that all their bytes were dropped.
        """

    async def compact(self, *, max_bytes: int) -> int:
        """Give up to `max_bytes` of unused space back to the file system; how much is still unused."""

    async def reserve(self, key: SendKey, digest: str, *, now: datetime, ttl_s: float, max_entries: int) -> SendRecord | None:
        """Begin with a message; what is known when it was begun with before, within `ttl_s`, else None.

        Whatever `create` or `append` puts on record for this message afterwards notes its task and event here, in its own
        transaction. At most `max_entries` are kept: the oldest go.
        """

    async def settle(self, key: SendKey, told: Told) -> None:
        """Keep how a message was refused; nothing happens where it has led to a task, or is settled already."""

    async def forget_sends(self, *, before: datetime, limit: int = 500) -> int:
        """Delete up to `limit` records of messages that were begun with before then; how many went."""

    async def note(self, entry: AuditEntry) -> None:
        """Put an entry on the audit record, which is never changed: each is a link of the chain of those before it."""

    async def audit_after(self, number: int, limit: int) -> AuditPage:
        """Up to `limit` audit records after that number, in order."""

    async def audit_last(self, limit: int) -> Sequence[Kept]:
        """The last `limit` audit records, in order."""

    async def forget_audit(self, *, before: datetime, limit: int = 500) -> int:
        """Delete up to `limit` audit records from before then, from the beginning and without a hole; how many went."""

    async def put_push(self, entry: PushEntry, *, max_per_task: int | None) -> PushEntry:
        """Keep a push notification config, in place of one of the same id of the same principal; with number and cursor.

        A cursor below zero means "from now on"; one that takes another's place takes its cursor. Raises `TooManyPushes`, and
        `Conflict` when the task is not on record. `max_per_task` None: whoever calls has seen to the cap.
        """

    async def pushes(self, task_id: str) -> Sequence[PushEntry]:
        """The task's configs, oldest first."""

    async def live_pushes(self) -> Sequence[PushEntry]:
        """Every config that has, or may get, something to be sent."""

    async def drop_pushes(self, numbers: Sequence[int]) -> None:
        """Forget configs by their numbers."""

    async def drop_pushes_of(self, principals: Collection[str]) -> Sequence[PushEntry]:
        """Forget every config of these principals; those that went."""

    async def advance_push(self, number: int, cursor: int, *, got_through: bool) -> bool:
        """Everything up to `cursor` has been dealt with; False: the config is gone. `got_through`: its receiver answers."""

    async def fail_push(self, number: int, *, tries: int, next_at: datetime) -> bool:
        """What follows the cursor was tried so often, and is to be tried again then; False: the config is gone."""

    async def bury_push(self, number: int, dead: DeadPush) -> bool:
        """Give up on an event: it becomes a dead letter, and the cursor passes it; False: the config is gone."""

    async def dead_pushes(self, *, limit: int = 1000) -> Sequence[DeadPush]:
        """Dead letters, the newest first; they go with their task, and the oldest when there are many."""

    async def dead_push(self, number: int) -> DeadPush | None:
        """The dead letter of that number, or None."""

    async def drop_dead(self, number: int) -> None:
        """Forget a dead letter: it got through after all."""

    async def retry_dead(self, number: int, *, at: datetime, why: str) -> None:
        """A dead letter was tried once more, in vain, at that time."""

    async def size_bytes(self) -> int:
        """How much it has in use: what was given up counts no more, even where the file has not shrunk yet."""

    async def check(self) -> None:
        """Write and read something durable; `StoreUnavailable` when that fails, or damage was met before. For `/readyz`."""

    async def close(self) -> None:
        """Drain what was accepted, then close; further calls raise `StoreUnavailable`, and so does one that takes too long."""
