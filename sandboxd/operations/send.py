"""What does a message do: start a command, echo, or answer?

In this order: a message with `hitl_response_for` is an answer, whatever else it is; one with a `taskId` belongs to a task
that exists; one with an adapter-command envelope starts a command; any other text is echoed (adapter-command/v1, Semantics).
"""

from __future__ import annotations

import uuid
from contextlib import AsyncExitStack
from typing import Final

import attrs

from sandboxd.a2a.extensions import HITL_PROMPT, HITL_RESPONSE_FOR, MISSION
from sandboxd.a2a.model import Message, PushConfig, Reply, SendRequest
from sandboxd.errors import (
    ContentTypeNotSupported,
    ExtensionSupportRequired,
    InvalidParams,
    NotReady,
    Problem,
    UnsupportedOperation,
)
from sandboxd.operations import push as pushing
from sandboxd.operations import render, scripted
from sandboxd.operations.answer import answer
from sandboxd.operations.audit import Note, audited, entry_of, of_message
from sandboxd.operations.host import Caller, Earlier, Host
from sandboxd.operations.stream import OneMessage, Stream, TaskStream, check_streaming, until
from sandboxd.policy.adapter import read_dispatch
from sandboxd.runner.protocol import RunRequest
from sandboxd.store.base import Entry, StoreUnavailable
from sandboxd.tasks.events import Finished, Submitted, Wrote
from sandboxd.tasks.view import TaskView, fold

_ECHO: Final = "echo"  # the artifact that holds a message's text


async def send(host: Host, caller: Caller, instance: str, request: SendRequest, *, wait: bool) -> Reply:
    """Act on a message and return the task (only a script is answered with a bare message).

    With `wait` (A2A's blocking default) once it is terminal or waits for its client; else as soon as it has started, been
    rejected, or its answer has been accepted. `returnImmediately` wins over `wait`.
    """
    view = await _accept(host, caller, instance, request)
    if isinstance(view, Message):
        return view
    view = await until(host, view, started=not wait or request.return_immediately)
    is_new = request.message.task_id is None and caller.earlier is None
    fresh = {_ECHO: _echo_of(request.message)} if is_new else {}  # put on record just now
    caller = _taking(caller, request)
    return await render.task(host, caller, view, history_length=request.history_length, has_acted=True, fresh=fresh)


async def stream(host: Host, caller: Caller, instance: str, request: SendRequest) -> Stream:
    """Act on a message and follow the task until it is terminal or waits for its client."""
    check_streaming(host)
    view = await _accept(host, caller, instance, request)
    if isinstance(view, Message):
        return OneMessage(view)
    caller = _taking(caller, request)
    return TaskStream(host, caller, view, ends_at_interruption=True, history_length=request.history_length)


def _taking(caller: Caller, request: SendRequest) -> Caller:
    """The caller, with the media types that this message says it takes."""
    return attrs.evolve(caller, modes=request.accepted_output_modes) if request.accepted_output_modes else caller


async def _accept(host: Host, caller: Caller, instance: str, request: SendRequest) -> TaskView | Message:
    async with audited(host, caller, instance, of_message(request.message, request.push)) as note:
        found = await _act(host, caller, instance, request, note)
        note.task_id = found.task_id
        return found


async def _act(host: Host, caller: Caller, instance: str, request: SendRequest, note: Note) -> TaskView | Message:
    host.enter(caller, instance)
    _check_extensions(host, caller)
    if caller.earlier is not None:
        return await _recall(host, caller, instance, caller.earlier)
    if request.push is None:
        return await _take(host, caller, instance, request, None, note=note)
    outbox = pushing.need(host)
    if caller.grants.allows("send", instance) or caller.grants.allows("answer", instance):  # else it is refused for that
        await pushing.vet(outbox, request.push)
    task_id = request.message.task_id
    async with AsyncExitStack() as stack:
        config: PushConfig | None = pushing.named(request.push)
        if task_id is not None:
            await stack.enter_async_context(outbox.changing(task_id))
            config = await pushing.prepare(host, caller, instance, task_id, request.push)
        note.config_id = config.id if config else None
        try:
            view = await _take(host, caller, instance, request, config, note=note)
        except NotReady:
            if task_id is not None:
                outbox.expect_nowait(task_id)  # an answer that was typed gets on record, later
            raise
        if config is not None and isinstance(view, TaskView):
            await pushing.settle(host, outbox, caller, view, config)
    return view


async def _take(
    host: Host, caller: Caller, instance: str, request: SendRequest, config: PushConfig | None, *, note: Note
) -> TaskView | Message:
    """Act on the message; `config` came with it, and gets on record in the transaction that says what the message did.

    So does `note`, where the message begins a task.
    """
    message = request.message
    if host.plays_scripts:
        return await _play(host, caller, instance, request, config, note=note)
    if message.metadata and HITL_RESPONSE_FOR in message.metadata:
        return await _answer(host, caller, instance, message, config)
    caller.need("send", instance, "send a message")
    if message.task_id is not None:
        return await _take_again(host, caller, instance, message)
    dispatch = read_dispatch(request, hitl_active=HITL_PROMPT in caller.extensions, mission_active=MISSION in caller.extensions)
    if host.storage is not None:
        await host.storage.check()
    _refuse_other_parts(message)
    view = TaskView(str(uuid.uuid4()), message.context_id or str(uuid.uuid4()), instance)
    push = pushing.entry_of(caller, view, config) if config else None
    message = attrs.evolve(message, task_id=view.task_id, context_id=view.context_id)
    kept = entry_of(host, caller, instance, note, task_id=view.task_id)
    submitted = Entry(Submitted(host.clock.now(), message), push=push, note=kept)
    if dispatch is None:
        view = await _echo(host, caller, view, submitted, _echo_of(message))
    else:
        command, text, mission_id = dispatch
        run = RunRequest(view.task_id, view.context_id, instance, command, text, mission_id)
        view = await host.supervisor.submit(caller.principal, submitted, view, run)
    note.is_kept = True  # no checkpoint comes between the commit and this
    return view


async def _answer(host: Host, caller: Caller, instance: str, message: Message, config: PushConfig | None) -> TaskView:
    if config is None or message.task_id is None:
        return await answer(host, caller, instance, message)
    place = TaskView(message.task_id, message.context_id or "", instance)
    return await answer(host, caller, instance, message, pushing.entry_of(caller, place, config))


async def _play(
    host: Host, caller: Caller, instance: str, request: SendRequest, config: PushConfig | None, *, note: Note
) -> TaskView | Message:
    message = request.message
    caller.need("send", instance, "send a message")
    if message.task_id is None:
        return await scripted.begin(host, caller, instance, message, config, note=note)
    view = await _continued(host, caller, instance, message)
    _check_not_ended(view)
    return await scripted.go_on(host, caller, view, message, config)


def _check_extensions(host: Host, caller: Caller) -> None:
    missing = [uri for uri in host.capabilities.required_extensions if uri not in caller.extensions]
    if missing:
        why = f"cannot take the message: name these in the header `A2A-Extensions`: {', '.join(missing)}"
        raise ExtensionSupportRequired(why, facts={"missing_extensions": missing})


async def _recall(host: Host, caller: Caller, instance: str, earlier: Earlier) -> TaskView:
    """The task as the first of the equal requests saw it first: everything that follows from there is the same again."""
    view = await host.view(caller, instance, earlier.task_id)
    return await host.store.view_at(earlier.task_id, earlier.seq) or view


async def _take_again(host: Host, caller: Caller, instance: str, message: Message) -> TaskView:
    """The task, when it has that very message already: a retry changes nothing.

    No other message but an answer goes to a task that exists: nothing is ever typed that no question asked for.
    """
    view = await _continued(host, caller, instance, message)
    if attrs.evolve(message, context_id=view.context_id) in view.history:
        return view
    _check_not_ended(view)
    if view.prompt is not None and not view.prompt.is_open:
        expired = "cannot take the message: the task waits for an answer, but its prompt has expired and takes none any more"
        raise UnsupportedOperation(expired, facts={"taskId": view.task_id, "promptId": view.prompt.prompt_id})
    if view.state is not None and view.state.is_interrupted:
        at = f"message.metadata.{HITL_RESPONSE_FOR}"
        why = Problem(at, "required: the task waits for an answer; it is {prompt_id, payload}, as hitl-prompt/v1 says")
        raise InvalidParams("cannot take the message: it is no answer; the prompt is still open", problems=[why])
    raise UnsupportedOperation("cannot take the message: the task is working and asks nothing", facts={"taskId": view.task_id})


async def _continued(host: Host, caller: Caller, instance: str, message: Message) -> TaskView:
    """The task that a message belongs to; refused when its context is another one's."""
    assert message.task_id is not None
    view = await host.view(caller, instance, message.task_id)
    if message.context_id is not None and message.context_id != view.context_id:
        why = Problem("message.contextId", "is not the context of that task; leave it out to have it inferred")
        raise InvalidParams("cannot take the message: task and context do not belong together", problems=[why])
    return view


def _check_not_ended(view: TaskView) -> None:
    assert view.state is not None
    if view.state.is_terminal:
        facts = {"taskId": view.task_id, "state": view.state.value}
        raise UnsupportedOperation(f"cannot take the message: the task is {view.state.value}", facts=facts)


def _refuse_other_parts(message: Message) -> None:
    others = [
        Problem(f"message.parts[{index}]", f"is a `{part.kind}` part; this agent reads text alone")
        for index, part in enumerate(message.parts)
        if part.kind != "text"
    ]
    if others:
        raise ContentTypeNotSupported("cannot take the message: it has parts that would be dropped", problems=others)


def _echo_of(message: Message) -> bytes:
    return "\n".join(str(part.value) for part in message.parts).encode("utf-8", "surrogatepass")


async def _echo(host: Host, caller: Caller, view: TaskView, submitted: Entry, data: bytes) -> TaskView:
    at = submitted.event.at
    wrote = Wrote(at, _ECHO, 0, len(data), first=True, last=True)
    said = "No adapter-command envelope: the text was echoed, and nothing was run."
    finished = Finished(at, str(uuid.uuid4()), "echo", None, said)
    entries = [submitted, Entry(wrote, data), Entry(finished)]
    for entry in entries:
        view = fold(view, entry.event)
    try:
        await host.feed.create(caller.principal, entries, view)
    except StoreUnavailable as error:
        raise NotReady(f"cannot echo the message: {error}") from error
    return view
