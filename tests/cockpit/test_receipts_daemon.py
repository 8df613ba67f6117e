"""Does a cockpit learn what became of an answer, also when nobody looks, and never more than its host tells?"""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from sandboxd.cockpit.agent import HostAddress
from sandboxd.cockpit.controller import Controller
from sandboxd.cockpit.receipts.progress import progress_of
from sandboxd.cockpit.record import Record
from tests.cockpit.bridge import answer, asked, cockpit, somebody, stands, until
from tests.fakes.executor import Executor
from tests.support.daemon import Daemon, answer_body, prompt_of

ALICE = somebody("alice")
PROMPT_ID = "0b5c0f3e-8d4f-4a4b-9f0f-000000000001"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
ENVELOPE = {"prompt_id": PROMPT_ID, "prompt": "Proceed?", "response_schema": TEXT}


def address(daemon: Daemon, transport: str = "jsonrpc") -> HostAddress:
    return HostAddress("here", daemon.url, "rest" if transport == "rest" else "jsonrpc", daemon.token)


async def known(controller: Controller, record: Record) -> Record:
    """The question, once something is known of its answer behind the acceptance."""

    async def found() -> Record | None:
        now = await controller.records.find(record.place.host, record.prompt_id)
        return now if now is not None and now.receipts else None

    made: Record = await until(controller.records, found, "a receipt")
    return made


async def story(controller: Controller) -> list[tuple[str, str]]:
    entries: list[dict[str, Any]] = [json.loads(kept.body) for kept in await controller.records.audit_last(100)]
    return [(entry["event"], entry["outcome"]) for entry in entries]


def send_as(daemon: Daemon, task: dict[str, Any], message_id: str) -> None:
    body = answer_body(task, prompt_of(task)["prompt_id"], "y")
    body["message"]["messageId"] = message_id
    with daemon.client() as client:
        assert client.post("/message:send", json=body).status_code == 200


def states(record: Record) -> list[tuple[str, str]]:
    return [(step.name, step.state) for step in progress_of(record)]


@pytest.mark.parametrize("transport", ["jsonrpc", "rest"])
async def test_that_the_program_read_and_went_on_is_on_record_when_nobody_looked(tmp_path, shared, transport):
    task = await trio.to_thread.run_sync(lambda: shared.run([["ask", "Proceed? [y/N] "]]))
    async with cockpit(tmp_path, address(shared, transport)) as controller:
        record = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        await stands(controller.records, record, "closed")
        now = await known(controller, record)

        assert states(now) == [("recorded", "done"), ("accepted", "done"), ("read", "done"), ("went-on", "done")]
        assert all(receipt.said_at is not None for receipt in now.receipts)
        assert {("receipt", "read"), ("receipt", "went-on")} <= set(await story(controller))
        news = [one.what for one in await controller.records.news_after(0, 100)]
        assert news.count("receipt") == 1


async def test_what_was_told_while_the_cockpit_was_down_is_found_out(tmp_path, shared):
    task = await trio.to_thread.run_sync(lambda: shared.run([["ask", "First? [y/N] "], ["ask", "Second? [y/N] "]]))
    async with cockpit(tmp_path, address(shared)) as controller:
        record = await asked(controller.records, "here", prompt_of(task)["prompt_id"])
    # The host took an answer of ours, and the reply was lost with the cockpit: nobody hears the notice of it.
    async with cockpit(tmp_path) as controller:
        await answer(controller, record, ALICE, "cli", {"text": "y"})
        known_here = await controller.records.find("here", record.prompt_id)
        assert known_here is not None
        assert known_here.approval.verdict is not None
        message_id = known_here.approval.verdict.message_id
    await trio.to_thread.run_sync(send_as, shared, task, message_id)
    second = await trio.to_thread.run_sync(lambda: shared.until(task["id"], "INPUT_REQUIRED"))
    await trio.to_thread.run_sync(lambda: shared.answer(second, "n"))
    await trio.to_thread.run_sync(lambda: shared.until(task["id"], "COMPLETED"))
    async with cockpit(tmp_path, address(shared)) as controller:
        approval = await stands(controller.records, record, "closed")
        assert approval.status == "responded"
        now = await known(controller, record)

    assert states(now)[2:] == [("read", "done"), ("went-on", "done")]


async def test_a_host_that_speaks_of_no_receipts_leaves_it_at_accepted(tmp_path):
    with Executor() as executor:
        async with cockpit(tmp_path, HostAddress("lab", executor.url)) as controller:
            task_id = executor.begin()
            executor.ask(task_id, ENVELOPE)
            record = await asked(controller.records, "lab", PROMPT_ID)
            await answer(controller, record, ALICE, "cli", {"text": "y"})
            await stands(controller.records, record, "closed")
            executor.move(task_id, "COMPLETED")
            now = await known(controller, record)

    assert states(now) == [("recorded", "done"), ("accepted", "done"), ("read", "unknown"), ("went-on", "")]
    assert progress_of(now)[2].how == "this host does not say"
