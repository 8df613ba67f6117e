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
from sandboxd.errors import Forbidden, InvalidParams, Problem, PushNotificationNotSupported, TaskNotFound
from sandboxd.operations.host import Caller, Host
from sandboxd.operations.outbox import Outbox
from sandboxd.store.base import DeadPush, PushEntry, TooManyPushes
from sandboxd.targets import BadTarget, shown_url
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
    outbox = need(host)
    view = await host.view(caller, instance, request.task_id)
    await vet(outbox, request.config)
    config = attrs.evolve(request.config, id=request.config_id or request.config.id or str(uuid.uuid4()))
    return _shown(caller, await _keep(host, outbox, caller, view, config, after=-1))


async def attach(host: Host, outbox: Outbox, caller: Caller, view: TaskView, config: PushConfig, *, is_new: bool) -> None:
    """Keep a config that came with a message, and was vetted: with a new task it is told everything from its first event on."""
    if not config.id:
        known = [entry for entry in await host.store.pushes(view.task_id) if entry.principal == caller.principal]
        if any(attrs.evolve(entry.config, id="") == config for entry in known):
            return  # clients send it along with every message
        config = attrs.evolve(config, id=str(uuid.uuid4()))
    with trio.CancelScope(shield=True):  # the task is there: a client that hangs up now still wants to be told. One commit.
        try:
            await _keep(host, outbox, caller, view, config, after=0 if is_new else view.seq)
        except InvalidParams as error:  # too many: the message was acted on, and must not be refused any more
            _log.warning("Cannot keep the config that came with a message", task=view.task_id, why=error.message)


async def get(host: Host, caller: Caller, instance: str, request: PushRequest, *, has_default: bool = False) -> PushShown:
    """One config. `has_default`: no id, or `default`, is the newest one where there is none of that id."""
    need(host)
    await host.view(caller, instance, request.task_id)
    entries = await _visible(host, caller, instance, request.task_id)
    named = [entry for entry in entries if entry.config.id == request.config_id]
    if not named and has_default and request.config_id in (None, _DEFAULT):
        named = list(entries[-1:])
    if not named:
        facts = {"taskId": request.task_id, "configId": request.config_id or ""}
        raise TaskNotFound("cannot find the push notification config: the task has none of that id", facts=facts)
    return _shown(caller, _own_first(caller, named)[0])


async def list_configs(host: Host, caller: Caller, instance: str, task_id: str) -> tuple[PushShown, ...]:
    """All configs of the task that the caller may see, oldest first."""
    need(host)
    await host.view(caller, instance, task_id)
    return tuple(_shown(caller, entry) for entry in await _visible(host, caller, instance, task_id))


async def delete(host: Host, caller: Caller, instance: str, request: PushRequest) -> None:
    """Send nothing more for that config; fine when it is not there."""
    outbox = need(host)
    await host.view(caller, instance, request.task_id)
    entries = await _visible(host, caller, instance, request.task_id)
    named = _own_first(caller, [entry for entry in entries if entry.config.id == request.config_id])
    numbers = [entry.number for entry in named[:1]]
    if numbers:
        await host.store.drop_pushes(numbers)
        outbox.dropped_nowait(numbers)


async def read_dead(host: Host, caller: Caller, *, limit: int) -> Sequence[DeadPush]:
    """The last notifications that were given up, newest first; `Forbidden` for all but admins of the whole host."""
    if not caller.grants.allows_everywhere("admin"):
        raise Forbidden("cannot list dead letters: this needs the scope `admin` on every instance")
    return await host.store.dead_pushes(limit=limit)


async def _keep(host: Host, outbox: Outbox, caller: Caller, view: TaskView, config: PushConfig, *, after: int) -> PushEntry:
    extensions = tuple(sorted(caller.extensions))
    entry = PushEntry(view.task_id, view.instance, caller.principal, extensions, config, after)
    try:
        kept = await host.store.put_push(entry, max_per_task=MAX_PER_TASK)
    except TooManyPushes:
        why = Problem("taskId", f"has {MAX_PER_TASK} push notification configs already, as many as a task may have")
        raise InvalidParams("cannot set up push notifications: too many", problems=[why]) from None
    outbox.kept_nowait(kept)
    return kept


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
