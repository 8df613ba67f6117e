"""How does the controller learn what became of an answer, also when nobody looks?

By what the watch of a host brings: a notice counts as soon as it is heard, even before the reply to the answer itself. What was
told while nobody listened (the cockpit was down, a stream broke) is found out with the next look: the host tells the task's
story once more, from its beginning, up to where it stands. A host without that, or that speaks of no receipts, is not guessed
at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import trio

from sandboxd.cockpit.agent import Agent
from sandboxd.cockpit.reading import Refused, Seen, Unreadable
from sandboxd.cockpit.receipts import rows
from sandboxd.cockpit.receipts.receipt import SILENT, UNKNOWN_TASK, Receipt, has_told_nothing_since, notice_in, outlived
from sandboxd.cockpit.record import Record
from sandboxd.cockpit.records import Records

AT_ONCE: Final = 100  # of a host, with each look
REPLAY_S: Final = 15.0


class Receipts:
    """One cockpit's."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._heard: dict[tuple[str, str], str] = {}  # the last notice of each task that goes on: every list shows it again
        self._replayed: dict[int, tuple[str, str]] = {}  # how a task stood when its story was last told for that question

    async def saw(self, host: str, seen: Seen) -> None:
        """A host shows a task: what its status tells of an answer is put on record."""
        told, key, mark = notice_in(seen), (host, seen.task_id), _mark(seen)[1]
        if told is not None and self._heard.get(key) != mark:
            prompt_id, receipts = told
            record = await self._records.find(host, prompt_id)
            if record is not None and record.place.task_id == seen.task_id:
                await self._put(record, receipts)
            self._heard[key] = mark
        if seen.state.is_terminal:
            self._heard.pop(key, None)

    async def look_after(self, agent: Agent, listed: Mapping[str, Seen]) -> None:
        """Answers of which more may become known; `listed`: the host's tasks that go on. `Unreachable`."""
        for record in await self._records.read(lambda connection: rows.awaited(connection, agent.name, AT_ONCE)):
            task_id = record.place.task_id
            try:
                seen = listed.get(task_id) or await agent.get(task_id)
            except Refused as refused:
                if refused.is_unknown_task:
                    await self._put(record, (UNKNOWN_TASK,))
                continue
            except Unreadable:  # one task's nonsense keeps nothing from the others
                continue
            if receipts := await self._found_out(agent, record, seen):
                await self._put(record, receipts)

    async def _found_out(self, agent: Agent, record: Record, seen: Seen) -> tuple[Receipt, ...]:
        if not seen.keeps_answers:
            return (SILENT,)
        if has_told_nothing_since(seen, record.prompt_id):
            return ()
        if self._replayed.get(record.number) != _mark(seen):
            if receipts := await _replayed(agent, record, seen):
                return receipts
            self._replayed[record.number] = _mark(seen)
        told = outlived(seen, record.envelope["prompt"])
        return () if told is None else (told,)

    async def _put(self, record: Record, receipts: Iterable[Receipt]) -> None:
        known = {receipt.what for receipt in record.receipts}
        if new := [receipt for receipt in receipts if receipt.what not in known]:
            await self._records.write(lambda connection, now: rows.put(connection, record, new, now))
        self._replayed.pop(record.number, None)


async def _replayed(agent: Agent, record: Record, now: Seen) -> tuple[Receipt, ...]:
    """What the host has told of that answer by the time at which its task stood as it stands now."""
    found: tuple[Receipt, ...] = ()

    def hear(_: int | None, seen: Seen) -> bool:
        nonlocal found
        told = notice_in(seen)
        if told is not None and told[0] == record.prompt_id:
            found = told[1]
        return not found and not seen.state.is_terminal and _mark(seen) != _mark(now)

    with trio.move_on_after(REPLAY_S), suppress(Refused, Unreadable):  # it may keep no story: then there is nothing to learn
        await agent.follow(record.place.task_id, hear, after=1)
    return found


def _mark(seen: Seen) -> tuple[str, str]:
    return seen.state.value, str(seen.message.get("messageId") or "")
