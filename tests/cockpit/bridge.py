"""A cockpit's controller in this process, its hosts over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from sandboxd.approvals.record import Approval, Terms
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.agent import HostAddress, open_agent
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.ledger import STORE_NAME
from sandboxd.cockpit.record import Record
from sandboxd.cockpit.records import Records, open_records
from sandboxd.cockpit.watch import watch
from sandboxd.schemas.judge import open_judge

WAIT_S = 30.0


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def cockpit(folder: Path, *hosts: HostAddress, terms: Terms | None = None, **options: Any) -> AsyncIterator[Controller]:
    """A controller that runs and watches these hosts."""
    chosen = terms or Terms()
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(open_records(folder / STORE_NAME, now))
        judge = await stack.enter_async_context(open_judge())
        agents = {host.name: await stack.enter_async_context(open_agent(host)) for host in hosts}
        nursery = await stack.enter_async_context(trio.open_nursery())
        controller = Controller(records, agents, judge, now, terms_for=lambda _, __: chosen, **options)
        await nursery.start(controller.run)
        for agent in agents.values():
            nursery.start_soon(lambda one: watch(controller, one, every_s=0.1), agent)
        yield controller
        nursery.cancel_scope.cancel()


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


def somebody(name: str = "alice", *, may_answer: bool = True) -> Principal:
    return Principal(f"token:{name}", name, may_answer)
