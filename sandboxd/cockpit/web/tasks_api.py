"""What does the task that asks print, and how does it go on? (`GET /api/tasks/{host}/{task}/terminal`)

Server-sent events, read only: there is no way to send a key back. `task`: what runs, and every change of its state, with what
the host tells beside it (that a program has read its answer, say). `output`: bytes, base64, `id:` the offset behind them, so a
reader goes on with `?offset=` or `Last-Event-ID`. `gap`: so many bytes were dropped there. `trouble`: the host cannot be
reached, and is asked again; with `is_gone` it does not know the task, and nothing follows. `end`: the task has ended, and all
of its output was told.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import quart
import trio

from sandboxd.a2a.extensions import ADAPTER_COMMAND, NOTICE, OUTCOME, PROMPT_FACTS, PROMPT_NEWS, RUN_FACTS
from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.output import Output
from sandboxd.cockpit.reading import Refused, Seen, Unreachable, Unreadable, read_task
from sandboxd.cockpit.web.desk import Desk
from sandboxd.cockpit.web.gate import Guest
from sandboxd.errors import InvalidParams, TaskNotFound, TooBusy
from sandboxd.serving.streaming import Tell, event, stream_answer

ARTIFACT: Final = "terminal"  # what sandboxd calls the output of a run on a terminal
PIECE_BYTES: Final = 128 * 1024
QUICK_S: Final = 0.1  # while the task prints
SLOW_S: Final = 1.0  # while it is silent
FOREIGN_S: Final = 1.5  # a host without a door for bytes sends the whole task each time
_TOLD: Final = {"notice": NOTICE, "outcome": OUTCOME, "news": PROMPT_NEWS, "facts": PROMPT_FACTS}


async def watch_task(desk: Desk, guest: Guest, host: str, task: str) -> quart.Response:
    """The stream; it begins with the first byte that is kept, or behind `offset`."""
    agent = desk.controller.agent(host)
    if agent is None:
        raise TaskNotFound("cannot watch the task: no host of that name is configured")
    offset = _offset()
    if not desk.viewers.available_tokens:
        raise TooBusy("cannot watch the task now: too many terminals are being watched")

    async def tell_all(tell: Tell) -> None:
        async with desk.viewers:
            await _Watch(agent, task, offset, tell).run()

    return stream_answer(tell_all, closing=desk.closing, ping_s=desk.settings.ping_s, is_still_in=guest.is_still_in)


class _Gone(Exception):
    """The host does not know the task."""


class _Watch:
    """One viewer's look at one task."""

    def __init__(self, agent: Agent, task_id: str, offset: int, tell: Tell) -> None:
        self._agent = agent
        self._task_id = task_id
        self._offset = offset
        self._tell = tell
        self._wait_s = QUICK_S
        self._state: Seen | None = None
        self._moved = trio.Event()
        self._was_in_trouble = False
        self._has_told_gap = False

    async def run(self) -> None:
        try:
            while True:
                if await self._reached(self._introduce):
                    break
                await trio.sleep(SLOW_S)
        except _Gone as gone:
            await self._tell(event({"why": str(gone), "is_gone": True}, name="trouble"))
            return
        async with trio.open_nursery() as nursery:  # its states; its output here
            nursery.start_soon(self._follow)
            while True:
                had_ended = self._state is not None and self._state.state.is_terminal
                done = await self._reached(self._read)
                if had_ended and done and self._wait_s != QUICK_S:  # nothing came after its end
                    break
                moved = self._moved
                with trio.move_on_after(self._wait_s):
                    await moved.wait()
            nursery.cancel_scope.cancel()
        assert self._state is not None
        await self._tell(event({"state": self._state.state.value}, name="end"))

    async def _reached(self, work: Any) -> bool:
        """Do it; False: the host could not be reached, or said something else, which is told once."""
        try:
            await work()
        except (Refused, Unreachable, Unreadable) as error:
            if not self._was_in_trouble:
                await self._tell(event({"why": str(error)}, name="trouble"))
            self._was_in_trouble, self._wait_s = True, SLOW_S
            return False
        self._was_in_trouble = False
        return True

    async def _introduce(self) -> None:
        try:
            task = await self._agent.look(self._task_id)
        except Refused as refused:
            if refused.is_unknown_task:
                raise _Gone("the host does not know the task") from refused
            raise
        seen = read_task(task)
        if seen is None:
            raise Unreadable("it is no Task")
        self._state = seen
        await self._tell(event({**_state_json(seen), **_plan(task)}, name="task"))

    async def _follow(self) -> None:
        """Its states, as they come; a host that closes its streams is asked again."""
        while self._state is None or not self._state.state.is_terminal:
            send, receive = trio.open_memory_channel[Seen](64)

            def hear(_: int | None, seen: Seen, send: trio.MemorySendChannel[Seen] = send) -> bool:
                try:
                    send.send_nowait(seen)
                except (trio.WouldBlock, trio.BrokenResourceError):
                    return False
                return not seen.state.is_terminal

            async with trio.open_nursery() as nursery:  # the reader of the stream
                nursery.start_soon(self._listen, hear, send)
                async for seen in receive:
                    await self._hear(seen)
            await trio.sleep(SLOW_S)
            with suppress(Refused, Unreachable, Unreadable):  # the reader of its output says so
                await self._hear(await self._agent.get(self._task_id))

    async def _hear(self, seen: Seen) -> None:
        if seen == self._state:
            return
        self._state = seen
        await self._tell(event(_state_json(seen), name="task"))
        self._moved.set()
        self._moved = trio.Event()

    async def _listen(self, hear: Any, send: trio.MemorySendChannel[Seen]) -> None:
        with send, suppress(Refused, Unreachable, Unreadable):
            await self._agent.follow(self._task_id, hear, after=None)

    async def _read(self) -> None:
        """What was printed since; `_wait_s` says when it is worth asking again."""
        output = await self._agent.output(self._task_id, ARTIFACT, start=self._offset, most=PIECE_BYTES)
        quiet_s = SLOW_S
        if output is None:
            output, quiet_s = _spelled_output(await self._agent.look(self._task_id), self._offset), FOREIGN_S
        if output.cut and not self._has_told_gap and self._offset <= output.head < output.start + len(output.data):
            before = output.data[: output.head - output.start]
            await self._say(before)
            await self._tell(event({"offset": output.head, "bytes": output.cut}, name="gap"))
            self._has_told_gap = True
            await self._say(output.data[len(before) :])
        else:
            await self._say(output.data)
        self._wait_s = QUICK_S if output.data else min(self._wait_s * 1.5, quiet_s)

    async def _say(self, data: bytes) -> None:
        if data:
            at, self._offset = self._offset, self._offset + len(data)
            told = {"offset": at, "base64": base64.b64encode(data).decode()}
            await self._tell(event(told, number=self._offset, name="output"))


def _offset() -> int:
    for text in (quart.request.headers.get("Last-Event-ID"), quart.request.args.get("offset")):
        if text and text.strip():
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                raise InvalidParams("cannot watch the task: `offset` must be a number of bytes")
            return int(text)
    return 0


def _state_json(seen: Seen) -> dict[str, Any]:
    metadata = _mapping(seen.message.get("metadata"))
    told = {name: metadata[uri] for name, uri in _TOLD.items() if uri in metadata}
    return {"state": seen.state.value, "is_terminal": seen.state.is_terminal, "text": seen.text, **told}


def _plan(task: Mapping[str, Any]) -> dict[str, Any]:
    """What runs: as the one who sent it asked for it, and as the host says that it runs it."""
    history = task.get("history")
    messages = [_mapping(one) for one in history] if isinstance(history, list) else []
    asked = (_mapping(_mapping(message.get("metadata")).get(ADAPTER_COMMAND)) for message in messages)
    return {"command": next(filter(None, asked), None), "run": _mapping(_mapping(task.get("metadata")).get(RUN_FACTS)) or None}


def _spelled_output(task: Mapping[str, Any], start: int) -> Output:
    """The same from the task itself: the texts of its terminal, or of all artifacts where none is called so."""
    listed = task.get("artifacts")
    artifacts = [_mapping(one) for one in listed] if isinstance(listed, list) else []
    chosen = [one for one in artifacts if one.get("artifactId") == ARTIFACT] or artifacts
    parts = [_mapping(part).get("text") for one in chosen for part in _list(one.get("parts"))]
    data = "".join(text for text in parts if isinstance(text, str)).encode(errors="replace")
    return Output(start, data[start:], len(data))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
