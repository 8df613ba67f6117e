"""Who did what, and what came of it?

Every send, answer and cancel, and every change of who is told of news, is put on record, once, below all doors, whether it was
accepted or refused: time, principal, door, ids and outcome; of a push notification config, also one that comes with a message,
its id and where it sends to; of a send what it says that it belongs to (`a2a.links`). No text, no payload and no reason that a
client gave: what was said stands with the task, for those who may see it. The outcome is `ACCEPTED`, or the reason that the
caller was told (`TASK_NOT_FOUND`, …), or `LEFT` when the client went away before it was clear: then the task's own record says
what came of it. Each record's hash covers it and the one before (`sandboxd.chain`). A store that cannot be written stops
no answer and no cancel; that there is a gap goes to the log. What begins a task is noted in the transaction that puts
the task on record: neither is there without the other, and nobody waits for a second commit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from sandboxd import logs
from sandboxd.a2a.extensions import HITL_RESPONSE_FOR
from sandboxd.a2a.faults import reason_of
from sandboxd.a2a.links import NO_LINKS, Links, read_links
from sandboxd.a2a.model import Message, PushConfig
from sandboxd.chain import Kept
from sandboxd.errors import Forbidden, Refusal
from sandboxd.hitl.envelope import is_uuid
from sandboxd.operations.host import Caller, Host
from sandboxd.store.base import AuditAction, AuditEntry, AuditPage, PushEntry, StoreUnavailable
from sandboxd.targets import origin_of

ACCEPTED: Final = "ACCEPTED"
NOT_DELIVERED: Final = "NOT_DELIVERED"  # a dead letter that was sent once more
REVOKED: Final = "CREDENTIALS_GONE"  # nobody asked: a config went with its principal
REPLAYED: Final = "REPLAYED"
LEFT: Final = "LEFT"
FAILED: Final = "INTERNAL_ERROR"
ID_MAX_CHARS: Final = 256  # ids are the client's own words
WRITE_S: Final = 5.0

_log = logs.logger(__name__)


@attrs.define
class Note:
    """What is to be put on record; `task_id` becomes known on the way. `is_kept`: it is on record, with what it began."""

    action: AuditAction
    task_id: str | None = None
    prompt_id: str | None = None
    message_id: str | None = None
    config_id: str | None = None
    target: str | None = None
    outcome: str = ACCEPTED
    links: Links = NO_LINKS
    is_kept: bool = False


def of_message(message: Message, push: PushConfig | None = None) -> Note:
    """The beginnings of a note about a message that was sent, and of the config that came with it."""
    note = _of_message(message)
    return note if push is None else attrs.evolve(note, config_id=push.id or None, target=origin_of(push.url))


def _of_message(message: Message) -> Note:
    response = (message.metadata or {}).get(HITL_RESPONSE_FOR)
    if response is None:
        links = read_links([message.metadata]) if message.metadata else NO_LINKS
        return Note("send", message.task_id, None, message.message_id, links=links)
    prompt_id = response.get("prompt_id") if isinstance(response, dict) else None
    return Note("answer", message.task_id, prompt_id if is_uuid(prompt_id) else None, message.message_id)


@asynccontextmanager
async def audited(host: Host, caller: Caller, instance: str, note: Note) -> AsyncIterator[Note]:
    """Put on record how the block ends."""
    outcome = FAILED
    try:
        yield note
        outcome = REPLAYED if caller.earlier else note.outcome
    except Refusal as refusal:
        outcome = reason_of(refusal)
        raise
    except trio.Cancelled:
        outcome = LEFT
        raise
    finally:
        if not note.is_kept:
            await _write(host, caller, instance, note, outcome)


def entry_of(
    host: Host, caller: Caller, instance: str, note: Note, outcome: str = ACCEPTED, *, task_id: str | None = None
) -> AuditEntry:
    """The note as it is put on record; `task_id` where it does not name the task yet."""
    given = (task_id or note.task_id, note.prompt_id, note.message_id, note.config_id, note.target)
    task_id, prompt_id, message_id, config_id, target = (None if text is None else text[:ID_MAX_CHARS] for text in given)
    return AuditEntry(
        *(host.clock.now(), caller.principal, caller.door, note.action, instance[:ID_MAX_CHARS], outcome),
        task_id=task_id,
        prompt_id=prompt_id,
        message_id=message_id,
        config_id=config_id,
        target=target,
        links=note.links,
    )


async def read_audit(host: Host, caller: Caller, *, after: int, limit: int) -> AuditPage:
    """Records after that number; `Forbidden` for all but admins of the whole host."""
    _check_may_read(caller)
    return await host.store.audit_after(after, limit)


async def read_audit_end(host: Host, caller: Caller, *, limit: int) -> Sequence[Kept]:
    """The last records; `Forbidden` as `read_audit`."""
    _check_may_read(caller)
    return await host.store.audit_last(limit)


def _check_may_read(caller: Caller) -> None:
    if not caller.grants.allows_everywhere("admin"):
        raise Forbidden("cannot show the audit record: this needs the scope `admin` on every instance")


async def note_gone(host: Host, entry: PushEntry) -> None:
    """Put on record that a push notification config went with its principal's credentials."""
    note = Note("push-delete", entry.task_id, config_id=entry.config.id, target=origin_of(entry.config.url))
    await _write(host, Caller(entry.principal), entry.instance, note, REVOKED)


async def _write(host: Host, caller: Caller, instance: str, note: Note, outcome: str) -> None:
    entry = entry_of(host, caller, instance, note, outcome)
    with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_S) as patience:
        try:
            await host.store.note(entry)
        except StoreUnavailable as error:
            _log.error(
                "Cannot write the audit record", action=note.action, task=note.task_id, outcome=outcome, error=str(error)
            )
    if patience.cancelled_caught:
        _log.error("Cannot wait for the audit record", action=note.action, task=note.task_id, outcome=outcome)
