"""Who wants to be told of a task's news, and where? (A2A 1.0 §3.1.7 to §3.1.10, §4.3)

Whoever sees a task may have its news sent: it is told nothing that it could not read. A config is its creator's: nobody else
sees, replaces or deletes it but callers with the scope `admin`, and these are shown neither its token nor its URL's query. Its
credentials and its secret are shown to nobody. Its notifications show what its creator's own request would have been shown:
the prompt envelope only where that request activated hitl-prompt/v1.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from sandboxd import logs
from sandboxd.a2a.model import PushConfig, PushRequest, PushShown
from sandboxd.errors import (
    Forbidden,
    InvalidParams,
    NotReady,
    Problem,
    PushNotificationNotSupported,
    TaskNotFound,
    UnsupportedOperation,
)
from sandboxd.operations.audit import NOT_DELIVERED, Note, audited
from sandboxd.operations.host import Caller, Host
from sandboxd.operations.outbox import Outbox
from sandboxd.store.base import DeadPush, PushEntry, StoreUnavailable, TooManyPushes
from sandboxd.targets import BadTarget, origin_of, shown_url
from sandboxd.tasks.view import TaskView

MAX_PER_TASK: Final = 16
_log = logs.logger(__name__)
_DEFAULT: Final = "default"  # 0.3's clients ask for the one config of a task by this name, or by none


def need(host: Host) -> Outbox:
    """`PushNotificationNotSupported` where there are no notifications (A2A 1.0 §3.3.4)."""
    if host.outbox is None or not host.capabilities.push_notifications:
        raise PushNotificationNotSupported("cannot set up push notifications: this host has none")
    return host.outbox


async def vet(outbox: Outbox, config: PushConfig) -> None:
    """`InvalidParams` when nothing may be sent to the config's URL; it is judged again whenever something is."""
    try:
        target = outbox.targets.read(config.url)
    except BadTarget as error:
        raise _bad_url(str(error)) from None
    if target.address is None and (why := await outbox.look(config.url)):
        raise _bad_url(why)


async def create(host: Host, caller: Caller, instance: str, request: PushRequest) -> PushShown:
    """Tell the task's news from now on. A config of the caller's own with the same id is replaced."""
    assert request.config is not None
    config = attrs.evolve(request.config, id=request.config_id or request.config.id or str(uuid.uuid4()))
    note = Note("push-create", request.task_id, config_id=config.id, target=origin_of(config.url))
    async with audited(host, caller, instance, note):
        outbox = need(host)
        view = await host.view(caller, instance, request.task_id)
        await vet(outbox, config)
        async with outbox.changing(view.task_id):
            entry = attrs.evolve(entry_of(caller, view, config), cursor=-1)
            return _shown(caller, await _keep(host, outbox, entry, max_per_task=MAX_PER_TASK))


def entry_of(caller: Caller, view: TaskView, config: PushConfig) -> PushEntry:
    """A config of this caller's for that task; what comes with a message has its cursor where its event stands."""
    return PushEntry(view.task_id, view.instance, caller.principal, tuple(sorted(caller.extensions)), config, view.seq)


def named(config: PushConfig) -> PushConfig:
    """The config with an id, one of ours where the client gave none."""
    return config if config.id else attrs.evolve(config, id=str(uuid.uuid4()))


async def prepare(host: Host, caller: Caller, instance: str, task_id: str, config: PushConfig) -> PushConfig | None:
    """A config that came with a message for that task, with an id; None when the task has it already.

    `InvalidParams` when it would be one too many, and nothing has been done. Whoever asks holds `Outbox.changing`.
    """
    entries = await host.store.pushes(task_id)
    own = [entry.config for entry in entries if entry.principal == caller.principal]
    if not config.id and any(attrs.evolve(known, id="") == config for known in own):
        return None  # clients send it along with every message
    is_one_more = len(entries) >= MAX_PER_TASK and all(known.id != config.id for known in own)
    if is_one_more and await host.find(caller, instance, task_id) is not None:  # else it is refused for that
        raise _too_many()
    return named(config)


async def settle(host: Host, outbox: Outbox, caller: Caller, view: TaskView, config: PushConfig) -> None:
    """See to it that a config is told, which came with a message and is on record with its event.

    A message that was sent again made no event: then its config is put on record here.
    """
    with trio.CancelScope(shield=True):  # what is on record is told, whether or not the client is still there
        try:
            entries = await host.store.pushes(view.task_id)
        except StoreUnavailable as error:  # the message was acted on, and must not be refused any more
            _log.error("Cannot look a config up that came with a message", task=view.task_id, why=str(error))
            outbox.expect_nowait(view.task_id)
            return
        found = [entry for entry in entries if entry.principal == caller.principal and entry.config == config]
        if found:
            outbox.kept_nowait(found[0])
        else:
            await _keep(host, outbox, entry_of(caller, view, config), max_per_task=None)


async def get(host: Host, caller: Caller, instance: str, request: PushRequest, *, has_default: bool = False) -> PushShown:
    """One config. `has_default`: no id, or `default`, is the newest one where there is none of that id."""
    need(host)
    await host.view(caller, instance, request.task_id)
    entries = await _visible(host, caller, instance, request.task_id)
    found = [entry for entry in entries if entry.config.id == request.config_id]
    if not found and has_default and request.config_id in (None, _DEFAULT):
        found = list(entries[-1:])
    if not found:
        facts = {"taskId": request.task_id, "configId": request.config_id or ""}
        raise TaskNotFound("cannot find the push notification config: the task has none of that id", facts=facts)
    return _shown(caller, _own_first(caller, found)[0])


async def list_configs(host: Host, caller: Caller, instance: str, task_id: str) -> tuple[PushShown, ...]:
    """All configs of the task that the caller may see, oldest first."""
    need(host)
    await host.view(caller, instance, task_id)
    return tuple(_shown(caller, entry) for entry in await _visible(host, caller, instance, task_id))


async def delete(host: Host, caller: Caller, instance: str, request: PushRequest) -> None:
    """Send nothing more for that config; fine when it is not there."""
    async with audited(host, caller, instance, Note("push-delete", request.task_id, config_id=request.config_id)) as note:
        outbox = need(host)
        await host.view(caller, instance, request.task_id)
        entries = await _visible(host, caller, instance, request.task_id)
        for entry in _own_first(caller, [entry for entry in entries if entry.config.id == request.config_id])[:1]:
            note.target = origin_of(entry.config.url)
            await host.store.drop_pushes([entry.number])
            outbox.dropped_nowait([entry.number])


async def read_dead(host: Host, caller: Caller, *, limit: int) -> Sequence[DeadPush]:
    """The last notifications that were given up, newest first; `Forbidden` for all but admins of the whole host."""
    if not caller.grants.allows_everywhere("admin"):
        raise Forbidden("cannot list dead letters: this needs the scope `admin` on every instance")
    return await host.store.dead_pushes(limit=limit)


async def retry_dead(host: Host, caller: Caller, number: int) -> str:
    """Send a dead letter once more, now; why it did not get through, empty: it did, and is a dead letter no longer.

    `Forbidden` for all but admins of the whole host; `InvalidParams`: there is no such letter; `UnsupportedOperation`: its
    config is gone; `NotReady`.
    """
    if not caller.grants.allows_everywhere("admin"):
        raise Forbidden("cannot send a dead letter again: this needs the scope `admin` on every instance")
    outbox = need(host)
    dead = await host.store.dead_push(number)
    if dead is None:
        problem = Problem("number", "is none of a dead letter; `sandboxd push dead` lists them")
        raise InvalidParams("cannot send the dead letter again: there is none of that number", problems=[problem])
    found = [entry for entry in await host.store.pushes(dead.task_id) if _is_of(entry, dead)]
    instance = found[0].instance if found else ""
    note = Note("push-retry", dead.task_id, config_id=dead.config_id, target=origin_of(dead.url))
    async with audited(host, caller, instance, note):
        if not found:
            raise UnsupportedOperation("cannot send the dead letter again: its push notification config is gone")
        if outbox.desk is None:
            raise NotReady("cannot send the dead letter again: nobody sends yet")
        why = await outbox.desk.resend(found[0], dead)
        if why:
            note.outcome = NOT_DELIVERED
            await host.store.retry_dead(number, at=host.clock.now(), why=why)
        else:
            await host.store.drop_dead(number)
        return why


def _is_of(entry: PushEntry, dead: DeadPush) -> bool:
    return (entry.principal, entry.config.id) == (dead.principal, dead.config_id)


async def _keep(host: Host, outbox: Outbox, entry: PushEntry, *, max_per_task: int | None) -> PushEntry:
    try:
        kept = await host.store.put_push(entry, max_per_task=max_per_task)
    except TooManyPushes:
        raise _too_many() from None
    outbox.kept_nowait(kept)
    return kept


def _too_many() -> InvalidParams:
    why = Problem("taskId", f"has {MAX_PER_TASK} push notification configs already, as many as a task may have")
    return InvalidParams("cannot set up push notifications: too many", problems=[why])


async def _visible(host: Host, caller: Caller, instance: str, task_id: str) -> Sequence[PushEntry]:
    sees_all = caller.grants.allows("admin", instance)
    return [entry for entry in await host.store.pushes(task_id) if sees_all or entry.principal == caller.principal]


def _own_first(caller: Caller, entries: Sequence[PushEntry]) -> Sequence[PushEntry]:
    return sorted(entries, key=lambda entry: entry.principal != caller.principal)


def _shown(caller: Caller, entry: PushEntry) -> PushShown:
    config = attrs.evolve(entry.config, credentials=None, secret=None)
    if entry.principal != caller.principal:
        config = attrs.evolve(config, token=None, url=shown_url(config.url))
    return PushShown(entry.task_id, config)


def _bad_url(why: str) -> InvalidParams:
    return InvalidParams("cannot set up push notifications: nothing may be sent there", problems=[Problem("url", why)])
