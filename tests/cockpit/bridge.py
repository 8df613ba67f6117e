"""A cockpit in this process, its hosts and its people over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import trio

from sandboxd.approvals.record import Approval, Terms
from sandboxd.approvals.routing import Principal
from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.config import CockpitConfig
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.people import People, Person
from sandboxd.cockpit.record import Heard, Record
from sandboxd.cockpit.records import Records
from sandboxd.cockpit.rules import RuleBook
from sandboxd.cockpit.serve import open_cockpit
from sandboxd.cockpit.web.serve import open_web
from sandboxd.cockpit.web_config import Web as WebConfig
from sandboxd.config_doors import TcpAddress
from sandboxd.serving.bearer import digest_of
from tests.support.daemon import wait_until

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


async def came(condition: Callable[[], bool]) -> None:
    """Wait until something outside the record is so."""
    await trio.to_thread.run_sync(lambda: wait_until(condition, timeout_s=60))


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


def person(name: str, token: str | None = None, **more: Any) -> Person:
    """Somebody whose token is their name, over and over, or this one."""
    return Person(name, digest=digest_of(token or token_of(name)), **more)


def token_of(name: str) -> str:
    return (name * 40)[:40]


@attrs.frozen
class Web:
    """A cockpit that serves people: its controller, and where it is."""

    controller: Controller
    url: str
    unix: Path

    @asynccontextmanager
    async def client(self, name: str | None = None, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A program of that person's, which brings their token."""
        bearer = {"Authorization": f"Bearer {token_of(name)}"} if name else {}
        async with httpx.AsyncClient(base_url=self.url, headers=bearer | headers, timeout=WAIT_S, trust_env=False) as client:
            yield client

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that says where its requests come from, as the page's do."""
        async with self.client(None, Origin=self.url, **{"Sec-Fetch-Site": "same-origin"}) as client:
            yield client


@asynccontextmanager
async def web(folder: Path, *hosts: HostAddress, people: tuple[Person, ...], **options: Any) -> AsyncIterator[Web]:
    """A cockpit that runs, watches these hosts and serves these people."""
    rules = options.pop("rules", None) or RuleBook(options.pop("terms", None) or Terms(payload_class="public"))
    doors = {"tcp": TcpAddress("127.0.0.1", 0), "unix": folder / "cockpit.sock", **options.pop("doors", {})}
    config = CockpitConfig(folder, hosts, rules, people=People(people), web=WebConfig(**doors), **options)
    async with open_cockpit(config, look_every_s=0.1) as controller, open_web(config, controller) as listeners:
        yield Web(controller, listeners[-1].url, folder / "cockpit.sock")
