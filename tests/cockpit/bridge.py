"""A cockpit's controller in this process, its hosts over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from sandboxd.approvals.record import Approval, Terms
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.record import Heard, Record
from sandboxd.cockpit.records import Records
from sandboxd.cockpit.rules import RuleBook
from sandboxd.cockpit.serve import open_cockpit

WAIT_S = 30.0


@asynccontextmanager
async def cockpit(
    folder: Path, *hosts: HostAddress, terms: Terms | None = None, rules: RuleBook | None = None, **options: Any
) -> AsyncIterator[Controller]:
    """A controller that runs and watches these hosts."""
    config = CockpitConfig(folder, hosts, rules or RuleBook(terms or Terms()), **options)
    async with open_cockpit(config, look_every_s=0.1) as controller:
        yield controller


async def until(records: Records, condition: Callable[[], Awaitable[Any]], what: str = "the condition") -> Any:
    """Wait until it holds, looking again whenever something was written."""
    with trio.move_on_after(WAIT_S):
        while True:
            since = records.changes
            if found := await condition():
                return found
            await records.wait_changed(since)
    raise AssertionError(f"{what} did not come true within {WAIT_S} s")


async def asked(records: Records, host: str, prompt_id: str) -> Record:
    """The question, once it is there."""
    return await until(records, lambda: records.find(host, prompt_id), f"prompt {prompt_id}")


async def stands(records: Records, record: Record, phase: str) -> Approval:
    """The question's record, once it is in that phase."""

    async def reached() -> Approval | None:
        found = await records.find(record.place.host, record.prompt_id)
        return found.approval if found is not None and (found.approval.phase == phase) else None

    return await until(records, reached, f"the phase {phase}")


async def answer(controller: Controller, record: Record, who: Principal, channel: str, value: Mapping[str, Any]) -> Heard:
    """Answer; where a busy machine left no time to check the answer, once more."""
    with trio.fail_after(WAIT_S * 2):
        while True:
            heard = await controller.answer(record, who, channel, value)
            if heard.decided.marks[-1].outcome != "unjudged":
                return heard


def somebody(name: str = "alice", *, may_answer: bool = True) -> Principal:
    return Principal(f"token:{name}", name, may_answer)
